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
    ended_wrongly,
    forgotten,
    made_by_nobody,
    made_twice,
    not_as_received,
    not_at_rest,
)
from tests.proof.faults.world import World
from tests.support.invariants import is_of_the_tests_clock

SECONDS = 30.0


class Asked:
    """As much of a world as can be asked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def ask(self, statement: str) -> list[Any]:
        """What the server says."""
        return self.connection.execute(statement.encode()).fetchall()


def wait_for_a_lock(database: str) -> None:
    """Want what another has, until somebody ends us."""
    with suppress(psycopg.OperationalError), psycopg.connect(database, application_name="waiter") as waiter:
        waiter.execute("lock table planted")


@pytest.mark.lawless
def test_who_waits_for_a_lock_for_longer_than_a_second_is_found(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin, psycopg.connect(database) as holder:
        world = cast("World", Asked(admin))
        admin.execute("create table planted ()")
        assert list(not_at_rest(world)) == []
        holder.execute("lock table planted")
        waiting = threading.Thread(target=wait_for_a_lock, args=[database])
        waiting.start()
        try:
            deadline = time.monotonic() + SECONDS
            while not admin.execute(WAITS.encode()).fetchall():
                assert time.monotonic() < deadline, "nobody waits"
            found = list(not_at_rest(world))
        finally:
            holder.rollback()
            waiting.join(SECONDS)
        assert len(found) == 1
        assert found[0].endswith("(waiter) waits for AccessExclusiveLock on planted")
        assert list(not_at_rest(world)) == []


# What a journal, a receiver or a log would tell of a broken promise ---------------------------------------------------


class Told:
    """As much of a world as answers what it was given, and counts."""

    def __init__(self, ids: Sequence[str] = (), **answers: list[Any]) -> None:
        self.answers = answers
        self.counts: Counter[str] = Counter()
        self.receiver = SimpleNamespace(ids=lambda: list(ids))

    def ask(self, statement: str, *given: object) -> list[Any]:
        """What belongs to the first table that is asked for."""
        found = re.search(r"from ([\w.]+)", statement)
        assert found
        name = found[1].replace(".", "_")
        return self.answers.get(f"{name}_{given[0]}" if given else name, [])


def offences(found: Callable[[World], Iterable[str]], told: Told) -> list[str]:
    """What a check says about it."""
    return list(found(cast("World", told)))


@pytest.mark.parametrize("status", ["failed", "pending", "uncertain"])
def test_a_message_that_is_not_sent_in_the_end_is_a_loss(status: str) -> None:
    told = Told(duly_outbox=[("1", status)])
    assert offences(not_as_received, told) == [f"outbox 1 ended {status}: the receiver refuses nothing for good"]


def test_a_message_that_came_and_is_of_no_row_is_found() -> None:
    told = Told(["1", "2"], duly_outbox=[("1", "sent")], duly_transition_outbox=["1"])
    assert offences(not_as_received, told) == ["2 came, and there is no such message"]


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ("succeeded", None, None),
        ("dead_letter", "TIMEOUT", "took longer than 2 s"),
        ("dead_letter", "CRASHED", "the child process was killed by signal SIGSEGV"),
    ],
)
def test_a_poison_job_that_ends_otherwise_than_it_must_is_found(status: str, code: str | None, message: str) -> None:
    told = Told(ledger_job=[("1", "abort", status, code, message)])
    told.ask = lambda statement, *_: told.answers["ledger_job"] if statement == POISONED else []
    assert offences(partial(ended_wrongly, told=[]), told) == [
        f"job 1 is to end by abort and is {status}: {code}: {message}"
    ]


@pytest.mark.parametrize("ending", [("CRASHED", "the child process was killed by signal SIGABRT"), EXPIRED])
def test_a_poison_job_ends_by_itself_or_with_its_worker(ending: tuple[str, str]) -> None:
    told = Told()
    told.ask = lambda statement, *_: [("1", "abort", "dead_letter", *ending)] if statement == POISONED else []
    assert offences(partial(ended_wrongly, told=[]), told) == []


def test_a_capture_that_failed_is_found() -> None:
    told = Told(schedule_ingest_capture_session=[("1", "done", 1, None), ("2", "failed", 20, "too often")])
    assert offences(partial(ended_wrongly, told=[]), told) == ["capture 2 ended failed after 20 starts: too often"]


@pytest.mark.parametrize(("kind", "name"), [("job", "key"), ("post", "id"), ("answer", "run")])
def test_what_was_new_to_two_requests_is_found(kind: str, name: str) -> None:
    heard = [{"kind": kind, name: "1", "created": each} for each in (True, False, True)]
    assert list(made_twice(heard)) == [f"{kind} 1 was new to 2 requests"]
    assert list(made_twice(heard[:2])) == []


def test_a_row_of_a_key_that_nobody_asked_with_is_found() -> None:
    heard = [{"kind": "asks", "what": "job", "key": "a"}]
    told = Told(ledger_job=[("a", "1"), (None, "2"), ("harness-9", "3")], posts_posts=[("a", "4")])
    assert offences(partial(made_by_nobody, told=heard), told) == [
        "job 2 is of the key None, with which nobody asked",
        "post 4 is of the key a, with which nobody asked",
    ]


def test_a_memory_without_a_line_shows_nothing_and_is_an_offence() -> None:
    told = Told(witness_log=[("duly.transition", 5)])
    told.remember_logs = lambda: None  # type: ignore[attr-defined]
    told.ask = lambda statement, *given: [] if given or not statement else told.answers["witness_log"]
    assert offences(forgotten, told) == ["ledger.job_event: no line of it was remembered"]


def test_only_what_a_tests_clock_is_made_of_may_differ_from_the_contract() -> None:
    function = "function CREATE OR REPLACE FUNCTION duly.clock() RETURNS timestamp with time zone LANGUAGE sql"
    shifted = "(clock_timestamp() + (SELECT test_clock.shift FROM duly.test_clock))"
    assert is_of_the_tests_clock(f"{function} PARALLEL SAFE RETURN {shifted} ")
    assert is_of_the_tests_clock(f"{function} PARALLEL SAFE RETURN clock_timestamp() ")
    assert is_of_the_tests_clock("grant update on table duly.test_clock to public")
    assert not is_of_the_tests_clock(f"{function} PARALLEL SAFE RETURN '2026-01-01' ")
    assert not is_of_the_tests_clock(
        "column posts.posts.created_at timestamp with time zone not null default duly.clock()"
    )
    assert not is_of_the_tests_clock("grant execute on function duly.now() to public")
