"""Ingest over HTTP: sessions with a payload or with images, days, and every error."""

import httpx2

from duly.storage.photo import MAX_PHOTO_BYTES
from tests.fast.http.test_ingest import (
    DAY,
    MORNING,
    NOWHERE,
    SESSIONS,
    ApiEnvironment,
    added,
    anna,
    database,
    day,
    env,
    items,
    made,
    picture,
    problem,
    quiet,
    send,
    shown,
)

__all__ = ["anna", "database", "env", "quiet"]


# A day, from data to messages -----------------------------------------------------------------------------------------


# Images ---------------------------------------------------------------------------------------------------------------


def test_an_image_of_just_so_many_bytes_is_looked_at_and_a_larger_one_is_not(quiet: httpx2.Client) -> None:
    key = made(quiet.post(SESSIONS))["id"]
    jpeg = picture("JPEG")
    added(send(quiet, key, jpeg + bytes(MAX_PHOTO_BYTES - len(jpeg))))  # whatever follows the picture
    for size in (MAX_PHOTO_BYTES + 1, MAX_PHOTO_BYTES + 100_000):
        problem(send(quiet, key, jpeg + bytes(size - len(jpeg))), 413, "TOO_LARGE")
    huge = picture(size=(7000, 6000))
    assert "million pixels" in problem(send(quiet, key, huge), 422, "INVALID_ARGUMENT")


# Whose it is ----------------------------------------------------------------------------------------------------------


def test_another_persons_session_and_day_are_not_there(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = made(anna.post(SESSIONS))["id"]
    added(send(anna, key, picture()))
    made(anna.post(SESSIONS, json=day(MORNING)))
    assert env.work() == 1
    bo = env.person("bo")
    for verb, path in (("GET", ""), ("GET", "/timeline"), ("POST", "/close"), ("POST", "/images")):
        files = {"file": ("day.png", picture(), "image/png")} if path == "/images" else None
        theirs = bo.request(verb, f"{SESSIONS}/{key}{path}", files=files)
        nothing = bo.request(verb, f"{SESSIONS}/{NOWHERE}{path}", files=files)
        assert problem(theirs, 404, "NOT_FOUND") == problem(nothing, 404, "NOT_FOUND").replace(str(NOWHERE), key)
    problem(bo.get(DAY), 404, "NOT_FOUND")
    for what in ("versions", "events", "notifications"):
        assert items(bo.get(f"{DAY}/{what}")) == []
    problem(bo.get(f"{DAY}/versions/1"), 404, "NOT_FOUND")
    assert items(bo.get(SESSIONS)) == []
    seen = shown(anna.get(f"{SESSIONS}/{key}"))
    assert (seen["closed_at"], len(seen["images"])) == (None, 1)
    assert len(env.images) == 1


# When a session cannot be read ----------------------------------------------------------------------------------------
