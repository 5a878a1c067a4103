"""What is asked after an episode would be answered: a broken promise that is planted is found, of every kind."""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from tests.proof.faults.checks import (
    EXPIRED,
    POISONED,
    WAITS,
    changed_logs,
    created_twice,
    created_without_request,
    open_transactions_and_lock_waits,
    wrong_deliveries,
    wrong_outcomes,
)
from tests.proof.faults.harness import Harness
from tests.support.invariants import belongs_to_test_clock

SECONDS = 30.0


class QueryStub:
    """As much of a world as can be asked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def query(self, statement: str) -> list[Any]:
        """What the server says."""
        return self.connection.execute(statement.encode()).fetchall()


def wait_for_a_lock(database: str) -> None:
    """Wait for a lock that another holds, until this process is ended."""
    with suppress(psycopg.OperationalError), psycopg.connect(database, application_name="waiter") as waiter:
        waiter.execute("lock table planted")


@pytest.mark.breaks_invariants
def test_a_lock_wait_of_more_than_a_second_is_reported(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin, psycopg.connect(database) as holder:
        harness = cast("Harness", QueryStub(admin))
        admin.execute("create table planted ()")
        assert list(open_transactions_and_lock_waits(harness)) == []
        holder.execute("lock table planted")
        waiting = threading.Thread(target=wait_for_a_lock, args=[database])
        waiting.start()
        try:
            deadline = time.monotonic() + SECONDS
            while not admin.execute(WAITS.encode()).fetchall():
                assert time.monotonic() < deadline, "nothing waits for the lock"
            found = list(open_transactions_and_lock_waits(harness))
        finally:
            holder.rollback()
            waiting.join(SECONDS)
        assert len(found) == 1
        assert found[0].endswith("(waiter) waits for AccessExclusiveLock on planted")
        assert list(open_transactions_and_lock_waits(harness)) == []


# What a journal, a receiver or a log would tell of a broken promise ---------------------------------------------------


class FakeHarness:
    """As much of a world as answers what it was given, and counts."""

    def __init__(self, ids: Sequence[str] = (), **answers: list[Any]) -> None:
        self.answers = answers
        self.counts: Counter[str] = Counter()
        self.receiver = SimpleNamespace(ids=lambda: list(ids))

    def query(self, statement: str, *given: object) -> list[Any]:
        """What belongs to the first table that is asked for."""
        found = re.search(r"from ([\w.]+)", statement)
        assert found
        name = found[1].replace(".", "_")
        return self.answers.get(f"{name}_{given[0]}" if given else name, [])


def violations(found: Callable[[Harness], Iterable[str]], entries: FakeHarness) -> list[str]:
    """What a check says about it."""
    return list(found(cast("Harness", entries)))


@pytest.mark.parametrize("status", ["failed", "pending", "uncertain"])
def test_a_message_that_was_never_sent_is_reported(status: str) -> None:
    entries = FakeHarness(duly_outbox=[("1", status)])
    assert violations(wrong_deliveries, entries) == [f"outbox 1 ended {status}: the receiver refuses nothing for good"]


def test_a_received_message_without_a_row_is_reported() -> None:
    entries = FakeHarness(["1", "2"], duly_outbox=[("1", "sent")], duly_transition_outbox=["1"])
    assert violations(wrong_deliveries, entries) == ["2 came, and there is no such message"]


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ("succeeded", None, None),
        ("dead_letter", "TIMEOUT", "took longer than 2 s"),
        ("dead_letter", "CRASHED", "the child process was killed by signal SIGSEGV"),
    ],
)
def test_a_poison_job_with_an_unexpected_outcome_is_reported(status: str, code: str | None, message: str) -> None:
    entries = FakeHarness(ledger_job=[("1", "abort", status, code, message)])
    entries.query = lambda statement, *_: entries.answers["ledger_job"] if statement == POISONED else []
    assert violations(partial(wrong_outcomes, entries=[]), entries) == [
        f"job 1 is to end by abort and is {status}: {code}: {message}"
    ]


@pytest.mark.parametrize("ending", [("CRASHED", "the child process was killed by signal SIGABRT"), EXPIRED])
def test_a_poison_job_may_end_by_its_own_crash_or_with_its_worker(ending: tuple[str, str]) -> None:
    entries = FakeHarness()
    entries.query = lambda statement, *_: [("1", "abort", "dead_letter", *ending)] if statement == POISONED else []
    assert violations(partial(wrong_outcomes, entries=[]), entries) == []


def test_a_failed_capture_is_reported() -> None:
    entries = FakeHarness(schedule_ingest_capture_session=[("1", "done", 1, None), ("2", "failed", 20, "too often")])
    assert violations(partial(wrong_outcomes, entries=[]), entries) == [
        "capture 2 ended failed after 20 starts: too often"
    ]


@pytest.mark.parametrize(("kind", "name"), [("job", "key"), ("post", "id"), ("answer", "run")])
def test_a_row_created_by_two_requests_is_reported(kind: str, name: str) -> None:
    journal = [{"kind": kind, name: "1", "created": each} for each in (True, False, True)]
    assert list(created_twice(journal)) == [f"{kind} 1 was new to 2 requests"]
    assert list(created_twice(journal[:2])) == []


def test_a_row_whose_key_no_client_requested_is_reported() -> None:
    journal = [{"kind": "asks", "what": "job", "key": "a"}]
    entries = FakeHarness(ledger_job=[("a", "1"), (None, "2"), ("harness-9", "3")], posts_posts=[("a", "4")])
    assert violations(partial(created_without_request, entries=journal), entries) == [
        "job 2 is of the key None, which no client used",
        "post 4 is of the key a, which no client used",
    ]


def test_an_event_log_of_which_no_line_was_recorded_is_reported() -> None:
    entries = FakeHarness(witness_log=[("duly.transition", 5)])
    entries.record_logs = lambda: None  # type: ignore[attr-defined]
    entries.query = lambda statement, *given: [] if given or not statement else entries.answers["witness_log"]
    assert violations(changed_logs, entries) == ["ledger.job_event: no line of it was remembered"]


def test_only_the_test_clock_may_differ_from_the_contract() -> None:
    function = "function CREATE OR REPLACE FUNCTION duly.clock() RETURNS timestamp with time zone LANGUAGE sql"
    shifted = "(clock_timestamp() + (SELECT test_clock.shift FROM duly.test_clock))"
    assert belongs_to_test_clock(f"{function} PARALLEL SAFE RETURN {shifted} ")
    assert belongs_to_test_clock(f"{function} PARALLEL SAFE RETURN clock_timestamp() ")
    assert belongs_to_test_clock("grant update on table duly.test_clock to public")
    assert not belongs_to_test_clock(f"{function} PARALLEL SAFE RETURN '2026-01-01' ")
    assert not belongs_to_test_clock(
        "column posts.posts.created_at timestamp with time zone not null default duly.clock()"
    )
    assert not belongs_to_test_clock("grant execute on function duly.now() to public")
