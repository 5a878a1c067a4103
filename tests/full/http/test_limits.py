"""Limits per caller: bodies that are forbidden, too large, too slow or too many, and concurrent readiness checks."""

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from select import select

import pytest

from duly.http.request_limits import BODIES_AT_ONCE, BODY_SECONDS, IMAGES_AT_ONCE, MAX_BODY_BYTES
from tests.fast.http.test_limits import (
    IMAGES,
    JOBS,
    LARGE,
    LIMITED,
    NOWHERE,
    WRITES,
    Api,
    Sender,
    answer_before_the_body,
    api,
    sender_to,
    unknown,
)
from tests.support.api import SECONDS, client_for, key_for

__all__ = ["api"]
TAKES_A_BODY = [JOBS, f"/v1/jobs/{NOWHERE}/cancel", "/v1/confirmations", *LIMITED]


# Who may send ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("announced", [10, LARGE, None])
@pytest.mark.parametrize("path", TAKES_A_BODY)
def test_a_key_without_the_scope_is_refused_before_its_body_is_read(path: str, announced: int | None, api: Api) -> None:
    assert answer_before_the_body(api, path, api.reader, announced) == (403, "FORBIDDEN")


# How much, and how long -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "slots", "other_path"), [(IMAGES, IMAGES_AT_ONCE, JOBS), (JOBS, BODIES_AT_ONCE, IMAGES)]
)
def test_one_caller_gets_at_most_half_of_the_slots_for_large_bodies(
    path: str, slots: int, other_path: str, api: Api, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.http.body_slots.SLOT_WAIT_SECONDS", 0.5)
    monkeypatch.setattr("duly.http.request_limits.STALL_SECONDS", SECONDS)
    other = key_for(database, "bravo", WRITES, uid="bert").secret
    another_key = key_for(database, "acme", WRITES, uid="anna", telegram_id=42).secret
    with ExitStack() as stack, client_for(api.address, api.writer) as anna, client_for(api.address, other) as bert:
        senders = [stack.enter_context(sender_to(api)) for _ in range(slots // 2 + 2)]
        for sender in senders:
            sender.begin(path, api.writer, LARGE + 1)
            sender.send(bytes(LARGE))
        for _ in range(2):
            refused = answered(senders)
            status, body, retry_after = refused.answer()
            assert (status, body["code"], retry_after) == (503, "UNAVAILABLE", "2")
            senders.remove(refused)
        assert anna.post(path, content=bytes(LARGE)).status_code == 503
        with client_for(api.address, another_key) as anna_again:
            assert anna_again.post(path, content=bytes(LARGE)).status_code == 503
        assert bert.post(path, content=bytes(LARGE)).status_code == 422
        assert anna.post(path, content=b"small").status_code == 422
        assert anna.post(other_path, content=bytes(LARGE)).status_code == 422
        senders[0].send(b"\0")
        assert senders[0].answer()[0] == 422
        assert anna.post(path, content=bytes(LARGE)).status_code == 422


@pytest.mark.parametrize("path", [IMAGES, JOBS])
def test_a_stalled_large_body_frees_its_slot(path: str, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duly.http.request_limits.STALL_SECONDS", 0.2)
    with sender_to(api) as sender:
        sender.begin(path, api.writer, LARGE * 4)
        sender.send(bytes(LARGE))
        began = time.monotonic()
        status, body, _ = sender.answer()
        assert time.monotonic() - began < BODY_SECONDS / 2  # long before the whole body is late
    assert (status, body["code"]) == (413, "TOO_LARGE")
    assert "at less than 16 KiB/s" in body["detail"]


def answered(senders: Sequence[Sender]) -> Sender:
    """Return the first client that gets a response."""
    ready, _, _ = select([sender.socket for sender in senders], [], [], SECONDS)
    return next(sender for sender in senders if sender.socket in ready)


def test_a_body_of_maximum_size_with_only_unknown_fields_is_refused_in_one_sentence(api: Api) -> None:
    body = json.dumps({"type": "a", **unknown(300_000)}, separators=(",", ":")).encode()
    assert MAX_BODY_BYTES * 0.6 < len(body) < MAX_BODY_BYTES
    with client_for(api.address, api.writer) as anna:
        answer = anna.post(JOBS, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 1
