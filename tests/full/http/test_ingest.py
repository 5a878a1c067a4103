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
    created,
    database,
    day,
    env,
    items,
    ok_body,
    picture,
    problem,
    send,
    shared_client,
)
from tests.support.api import request_until_rate_limited

__all__ = ["anna", "database", "env", "shared_client"]


# A day, from data to messages -----------------------------------------------------------------------------------------


# Images ---------------------------------------------------------------------------------------------------------------


def test_an_image_of_the_maximum_size_is_accepted_and_a_larger_one_refused(shared_client: httpx2.Client) -> None:
    key = created(shared_client.post(SESSIONS))["id"]
    jpeg = picture("JPEG")
    added(send(shared_client, key, jpeg + bytes(MAX_PHOTO_BYTES - len(jpeg))))  # whatever follows the picture
    for size in (MAX_PHOTO_BYTES + 1, MAX_PHOTO_BYTES + 100_000):
        problem(send(shared_client, key, jpeg + bytes(size - len(jpeg))), 413, "TOO_LARGE")
    huge = picture(size=(7000, 6000))
    assert "million pixels" in problem(send(shared_client, key, huge), 422, "INVALID_ARGUMENT")


# Whose it is ----------------------------------------------------------------------------------------------------------


def test_the_session_and_day_of_another_user_are_not_found(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS))["id"]
    added(send(anna, key, picture()))
    created(anna.post(SESSIONS, json=day(MORNING)))
    assert env.work() == 1
    bo = env.person("bo")
    for verb, path in (("GET", ""), ("GET", "/timeline"), ("POST", "/close"), ("POST", "/images")):
        files = {"file": ("day.png", picture(), "image/png")} if path == "/images" else None
        foreign = bo.request(verb, f"{SESSIONS}/{key}{path}", files=files)
        nothing = bo.request(verb, f"{SESSIONS}/{NOWHERE}{path}", files=files)
        assert problem(foreign, 404, "NOT_FOUND") == problem(nothing, 404, "NOT_FOUND").replace(str(NOWHERE), key)
    problem(bo.get(DAY), 404, "NOT_FOUND")
    for collection in ("versions", "events", "notifications"):
        assert items(bo.get(f"{DAY}/{collection}")) == []
    problem(bo.get(f"{DAY}/versions/1"), 404, "NOT_FOUND")
    assert items(bo.get(SESSIONS)) == []
    seen = ok_body(anna.get(f"{SESSIONS}/{key}"))
    assert (seen["closed_at"], len(seen["images"])) == (None, 1)
    assert len(env.images) == 1


# How often ------------------------------------------------------------------------------------------------------------


def test_rate_limit_per_user_is_reported_with_retry_after(env: ApiEnvironment, anna: httpx2.Client) -> None:
    bo = env.person("bo")
    *answers, limited = request_until_rate_limited(lambda: anna.post(f"{SESSIONS}/{NOWHERE}/close"))
    assert len(answers) >= 120
    assert limited.headers["retry-after"] == "1"
    assert problem(limited, 429, "RATE_LIMITED")
    created(bo.post(SESSIONS))
    ok_body(anna.get(SESSIONS))
