"""Worker processes over sessions that are killed and taken along: each session ends once, and every day adds up."""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.ingest.diff import replay
from duly.apps.ingest.shift import shift_from_json
from duly.crashpoint import KILLED
from duly.db.migrations import Names
from tests.support.capture_worker import EXITED, TUNING, CaptureWorkerPool, ReadingMode, users
from tests.support.ingest.actions import TOO_MANY_STARTS, Admin, CaptureActions
from tests.support.ingest.strategies import payload

SECONDS = 60.0
MAX_STARTS = TUNING.max_starts
OPEN = """
insert into schedule_ingest.capture_session (user_id, closed_at)
select given.user_id, duly.clock() from unnest(%s::bigint[]) as given (user_id)
"""
ADD_SESSIONS = """
insert into schedule_ingest.capture_session (user_id, payload, given_at, closed_at)
select g.user_id, g.payload, duly.clock(), duly.clock()
from unnest(%s::bigint[], %s::jsonb[]) with ordinality as g (user_id, payload, nth)
order by g.nth
"""


@pytest.fixture
def dsn(admin: Admin) -> str:
    """Return the address where workers connect, in their own role."""
    return make_conninfo(admin.info.dsn, user=Names().worker)


def create_sessions(captures: CaptureActions, people: Sequence[int]) -> None:
    """Create a complete session of each of these people, with a photograph."""
    captures.admin.execute(OPEN, [list(people)])


def add_sessions(captures: CaptureActions, days: Sequence[tuple[int, dict[str, Any]]]) -> None:
    """Sessions that were given as data, in this order."""
    texts = [orjson.dumps(day).decode() for _, day in days]
    captures.admin.execute(ADD_SESSIONS, [[user for user, _ in days], texts])


def read_sessions(captures: CaptureActions) -> dict[int, tuple[str, int, str | None]]:
    """State, starts and error of every person's only session."""
    query = "select user_id, state::text, starts, error from schedule_ingest.capture_session"
    return {user: (state, starts, error) for user, state, starts, error in captures.rows(query)}


def are_over(captures: CaptureActions) -> bool:
    """Has every session ended?"""
    query = "select count(*) from schedule_ingest.capture_session where state in ('pending', 'processing')"
    return captures.one(query) == 0


def wait_until(captures: CaptureActions, condition: Callable[[], bool]) -> None:
    """Wait for something in the database."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, read_sessions(captures)
        captures.admin.execute("select pg_sleep(0.02)")


def check_accounts(captures: CaptureActions) -> None:
    """Every session ended once and made one version at most, every day adds up, no notification is written twice."""
    assert are_over(captures)
    ends = Counter(
        captures.values(
            "select key from duly.transition where machine = 'capture' and next_status in ('done', 'failed')"
        )
    )
    assert ends == Counter(map(str, captures.values("select id from schedule_ingest.capture_session")))
    check_versions(captures)
    check_days(captures)
    check_messages(captures)
    captures.verify()


def check_versions(captures: CaptureActions) -> None:
    """Versions have no gap, one at most is of a session, and the pointer is at the last."""
    versions = captures.rows(
        "select user_id, schedule_date, version from schedule_ingest.schedule_version order by 1, 2, 3"
    )
    last = Counter((user, day) for user, day, _ in versions)
    assert [number for _, _, number in versions] == [n for each in last.values() for n in range(1, each + 1)]
    pointers = captures.rows("select user_id, schedule_date, current_version from schedule_ingest.day_schedule")
    assert {(user, day): number for user, day, number in pointers} == last
    sessions = captures.values("select session_id from schedule_ingest.schedule_version")
    assert len(sessions) == len(set(sessions))
    changed = "select id from schedule_ingest.capture_session where state = 'done' and result ->> 'outcome' = 'changed'"
    assert set(captures.values(changed)) == set(sessions)


def check_days(captures: CaptureActions) -> None:
    """The events of a day rebuild what is known of it, and its last version says the same."""
    days = captures.rows("select user_id, schedule_date, snapshot_payload, events from schedule_ingest.day_snapshot")
    assert len(days) == captures.count("schedule_ingest.day_schedule")
    for user, day, snapshot, several in days:
        events = captures.rows(
            "select old_value, new_value, seq from schedule_ingest.schedule_event"
            " where (user_id, schedule_date) = (%s, %s) order by seq",
            user,
            day,
        )
        assert [seq for _, _, seq in events] == list(range(1, several + 1))
        known = sorted(map(shift_from_json, snapshot), key=lambda shift: shift.sort_key)
        assert replay((old, new) for old, new, _ in events) == known


def check_messages(captures: CaptureActions) -> None:
    """Every event is in one notification, and every notification is of existing events."""
    event_ids = captures.values(
        "select jsonb_array_elements_text(event_ids) from schedule_ingest.schedule_notification"
    )
    assert Counter(event_ids) == Counter(
        map(str, captures.values("select event_id from schedule_ingest.schedule_event"))
    )


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", [ReadingMode.EXIT, ReadingMode.LOOP, ReadingMode.BLOCK], ids=lambda mode: mode.name.lower()
)
def test_a_poison_session_is_started_five_times_and_fails_no_other(
    mode: ReadingMode, captures: CaptureActions, dsn: str
) -> None:
    """Sessions that were claimed together with it every time are done, too, though they were started as often."""
    neighbours = users(ReadingMode.PAUSE, 12)
    poison = mode * 1000
    create_sessions(captures, [*neighbours[:6], poison, *neighbours[6:]])
    with CaptureWorkerPool(dsn) as pool:
        for _ in range(MAX_STARTS):
            pid = pool.start()
            pool.wait_for_line(pid, mode.name)
            if mode is ReadingMode.EXIT:
                assert pool.exit_status(pid) == EXITED
            else:
                pool.kill(pid)  # as a health check does
            captures.advance_clock(TUNING.lease_seconds + 1)
        pid = pool.start()
        wait_until(captures, lambda: are_over(captures))
        pool.stop(pid)
        assert mode.name not in {text.split()[0] for _, text in pool.unread}
    sessions = read_sessions(captures)
    assert sessions.pop(poison) == ("failed", MAX_STARTS, TOO_MANY_STARTS)
    assert {(state, error) for state, _, error in sessions.values()} == {("done", None)}
    assert max(starts for _, starts, _ in sessions.values()) <= MAX_STARTS
    check_accounts(captures)


def test_a_reader_that_hangs_times_out_and_delays_no_other(captures: CaptureActions, dsn: str) -> None:
    hanging, others = users(ReadingMode.HANG, 2), users(ReadingMode.READ, 30)
    create_sessions(captures, [hanging[0], *others, hanging[1]])
    with CaptureWorkerPool(dsn, "read_seconds=0.5", "slots=3") as pool:
        pid = pool.start()
        for _ in range(2):
            pool.wait_for_line(pid, "stopped")
        wait_until(captures, lambda: are_over(captures))
        pool.stop(pid)
    sessions = read_sessions(captures)
    for user in hanging:
        assert sessions.pop(user) == ("failed", 1, "Reading it took longer than 0.5 s. Send the day again.")
    assert set(sessions.values()) == {("done", 1, None)}
    check_accounts(captures)


def test_a_reader_that_raises_or_returns_nonsense_fails_only_its_session(captures: CaptureActions, dsn: str) -> None:
    bad = [mode * 1000 for mode in (ReadingMode.RAISE, ReadingMode.NOTHING, ReadingMode.NONSENSE)]
    others = users(ReadingMode.READ, 5)
    create_sessions(captures, [*others[:2], *bad, *others[2:]])
    with CaptureWorkerPool(dsn) as pool:
        pid = pool.start()
        wait_until(captures, lambda: are_over(captures))
        pool.stop(pid)
    sessions = read_sessions(captures)
    failures = [sessions.pop(user) for user in bad]
    assert {(state, starts) for state, starts, _ in failures} == {("failed", 1)}
    for _, _, text in failures:
        assert text is not None
        assert text.startswith("It could not be processed, and that is not your fault (")
        assert text.endswith("). Send the day again.")
    assert "ZeroDivisionError: reader failed" in str(failures[0])
    assert set(sessions.values()) == {("done", 1, None)}
    check_accounts(captures)


# kill -9 --------------------------------------------------------------------------------------------------------------

WORKERS = 8
SESSIONS = 200
KILLS = 20
SHORT_LEASE = 2.0
ENTRIES = [
    {"start": f"{hour:02}:00", "end": f"{hour + 1:02}:00", "title": f"{name} • Städning", "location": location}
    for hour, name, location in (
        (8, "Anna", "Billdal"),
        (9, "Bo", "Mölndal"),
        (10, "Cilla", "Billdal"),
        (11, "Dan", "Kungälv"),
    )
]


def any_day() -> tuple[int, dict[str, Any]]:
    """One of five people and three days, with some of four shifts."""
    shifts = random.sample(ENTRIES, random.randint(0, len(ENTRIES)))  # noqa: S311
    return random.randint(1, 5), payload(*shifts, date=f"2026-02-{random.randint(10, 12)}")  # noqa: S311


def test_every_day_is_consistent_although_eight_workers_with_one_name_are_killed(
    captures: CaptureActions, dsn: str
) -> None:
    add_sessions(captures, [any_day() for _ in range(SESSIONS)])
    with CaptureWorkerPool(dsn, f"lease_seconds={SHORT_LEASE}", "slots=4", "simulated_seconds=0.2") as pool:
        for _ in range(WORKERS):
            pool.start()
        for nth in range(KILLS):
            min_begun = nth * SESSIONS // (2 * KILLS)  # so many have begun
            wait_until(captures, lambda min_begun=min_begun: captures.one(BEGUN) > min_begun)
            pool.kill(random.choice(pool.running))  # noqa: S311
            pool.start()
        wait_until(captures, lambda: are_over(captures))
        for pid in pool.running:
            pool.stop(pid)
    rows = captures.rows("select state::text, starts, error from schedule_ingest.capture_session")
    assert any(starts > 1 for _, starts, _ in rows)
    assert {(starts, error) for state, starts, error in rows if state == "failed"} <= {(MAX_STARTS, TOO_MANY_STARTS)}
    assert set(captures.values("select split_part(settled_by, '/', 1) from schedule_ingest.capture_session")) <= {
        "worker-1",
        None,
    }
    assert captures.one("select count(*) from schedule_ingest.day_schedule") == 15
    check_accounts(captures)


BEGUN = "select count(*) from schedule_ingest.capture_session where state <> 'pending'"


BEFORE_THE_END = ["after_claim", "after_claim_commit", "before_work", "after_work", "before_settle", "after_settle"]


@pytest.mark.parametrize("point", BEFORE_THE_END)
def test_a_worker_killed_at_any_crash_point_leaves_no_partial_result(
    point: str, captures: CaptureActions, dsn: str
) -> None:
    create_sessions(captures, users(ReadingMode.READ, 10))
    with CaptureWorkerPool(dsn, DULY_CRASHPOINT=point) as pool:
        assert pool.exit_status(pool.start()) == KILLED
    assert "done" not in {state for state, _, _ in read_sessions(captures).values()}
    assert captures.counts() == dict.fromkeys(captures.counts(), 0)
    captures.advance_clock(TUNING.lease_seconds + 1)
    with CaptureWorkerPool(dsn) as pool:
        pid = pool.start()
        wait_until(captures, lambda: are_over(captures))
        pool.stop(pid)
    committed = 1 if point == "after_claim" else 2  # the claim, at that point, was not
    assert set(read_sessions(captures).values()) == {("done", committed, None)}
    assert captures.counts() == dict.fromkeys(captures.counts(), 10)
    check_accounts(captures)


# Stalled workers ------------------------------------------------------------------------------------------------------


def test_a_worker_resumed_after_its_leases_expired_writes_nothing(captures: CaptureActions, dsn: str) -> None:
    """Another worker of the same name has claimed its sessions by then, and finishes them."""
    create_sessions(captures, users(ReadingMode.PAUSE, 10))
    with CaptureWorkerPool(dsn, "slots=20", "heartbeat_seconds=9") as pool:  # so that its settling is refused
        stalled = pool.start("sweep_seconds=5")
        for _ in range(10):
            pool.wait_for_line(stalled, "PAUSE")
        os.kill(stalled, signal.SIGSTOP)
        captures.advance_clock(TUNING.lease_seconds + 1)
        successor = pool.start()
        wait_until(captures, lambda: are_over(captures))
        before = captures.counts(), captures.rows("select * from schedule_ingest.capture_session order by id")
        os.kill(stalled, signal.SIGCONT)
        wait_until(captures, lambda: pool.lost_leases()[stalled] == 10)
        assert (captures.counts(), captures.rows("select * from schedule_ingest.capture_session order by id")) == before
        pool.stop(stalled)
        pool.stop(successor)
    assert set(read_sessions(captures).values()) == {("done", 2, None)}
    check_accounts(captures)
