"""The transitions of a capture session, what is immutable, and the SQL that enforces both."""

import itertools

import psycopg
import pytest
from psycopg import errors

from duly.verify import compare
from duly.verify.contract import contract_lines
from tests.support.ingest.actions import LEASE, Admin, CaptureActions
from tools.state_machines.ingest import CAPTURE_MACHINE
from tools.state_machines.model import ILLEGAL_TRANSITION
from tools.state_machines.outbox import NOTIFICATION_MACHINE

STATES = ("pending", "processing", "done", "failed")
UNHELD = "locked_at = null, locked_by = null, lease_seconds = null"
BESIDE = {
    "pending": UNHELD,
    "processing": "locked_by = 'me/1', locked_at = duly.clock(), lease_seconds = 60, starts = starts + 1",
    "done": UNHELD + ", settled_by = 'me/1', result = '{}'",
    "failed": UNHELD + ", settled_by = 'me/1', error = 'because'",
}
PATHS_TO_STATE = {
    "pending": [],
    "processing": ["processing"],
    "done": ["processing", "done"],
    "failed": ["processing", "failed"],
}
FIXED = {
    "user_id": "7",
    "created_at": "created_at + interval '1 s'",
    "given_at": "duly.clock()",
    "payload": "'{}'",
}


def change(admin: Admin, what: str) -> None:
    """Update the only session directly."""
    admin.execute(f"update schedule_ingest.capture_session set {what}".encode())


def move(admin: Admin, to: str) -> None:
    """Change its state."""
    change(admin, f"state = '{to}', {BESIDE[to]}")


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(STATES, 2)))
async def test_every_transition_is_allowed_or_refused_as_declared(
    before: str, after: str, captures: CaptureActions
) -> None:
    key = await captures.open()
    for each in PATHS_TO_STATE[before]:
        move(captures.admin, each)
    if CAPTURE_MACHINE.allows(before, after):
        move(captures.admin, after)
        assert captures.path(key) == ["pending", *PATHS_TO_STATE[before], after]
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as refusal:
        move(captures.admin, after)
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION
    assert captures.path(key) == ["pending", *PATHS_TO_STATE[before]]


@pytest.mark.parametrize("state", STATES)
def test_session_is_inserted_only_as_pending(state: str, admin: Admin) -> None:
    insert = "insert into schedule_ingest.capture_session (user_id, state, error) values (1, %s, %s)"
    error = "because" if state == "failed" else None
    if state == "pending":
        admin.execute(insert, [state, error])
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot begin as {state}") as refusal:
        admin.execute(insert, [state, error])
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION


def test_state_enum_has_the_states_of_the_contract(captures: CaptureActions) -> None:
    states = captures.values("select unnest(enum_range(null::schedule_ingest.capture_session_state))::text")
    assert tuple(states) == STATES
    assert set(CAPTURE_MACHINE.states()) == set(STATES)


@pytest.mark.parametrize("column", FIXED)
async def test_creation_columns_of_a_session_cannot_be_changed(column: str, captures: CaptureActions) -> None:
    await captures.open()
    with pytest.raises(psycopg.DatabaseError, match="these stay as they are") as refusal:
        change(captures.admin, f"{column} = {FIXED[column]}")
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION


async def test_id_of_a_session_cannot_be_changed(captures: CaptureActions) -> None:
    await captures.open()
    with pytest.raises(psycopg.DatabaseError, match="the primary key of capture"):
        change(captures.admin, "id = gen_random_uuid()")


# Leases ---------------------------------------------------------------------------------------------------------------


async def test_another_owner_can_claim_a_session_only_after_its_lease_expires(captures: CaptureActions) -> None:
    key = await captures.open()
    await captures.claim()
    for seconds in (0, LEASE - 1):
        captures.advance_clock(seconds)
        with pytest.raises(psycopg.DatabaseError, match="is leased by worker-1") as refusal:
            change(captures.admin, "locked_by = 'another/2', locked_at = duly.clock()")
        assert refusal.value.sqlstate == ILLEGAL_TRANSITION
    captures.advance_clock(2)
    change(captures.admin, "locked_by = 'another/2', locked_at = duly.clock()")
    assert captures.path(key) == ["pending", "processing", "processing"]
    assert captures.values("select actor from duly.transition where machine = 'capture' order by seq")[2] == "another/2"
    captures.verify()


async def test_expired_session_cannot_be_claimed_twice(captures: CaptureActions) -> None:
    await captures.open()
    await captures.claim()
    captures.advance_clock(LEASE + 1)
    change(captures.admin, "locked_by = 'another/2', locked_at = duly.clock()")
    with pytest.raises(psycopg.DatabaseError, match="is leased by another/2"):
        change(captures.admin, "locked_by = 'a third/3', locked_at = duly.clock()")


async def test_lease_renewal_is_not_logged_as_a_transition(captures: CaptureActions) -> None:
    key = await captures.open()
    await captures.claim()
    captures.advance_clock(10)
    change(captures.admin, "locked_at = duly.clock()")
    assert captures.path(key) == ["pending", "processing"]
    assert captures.one("select revision from schedule_ingest.capture_session") == 2


async def test_audit_log_contains_the_settling_worker_and_the_result(captures: CaptureActions) -> None:
    await captures.capture({"schedule_date": "2026-02-10", "entries": []})
    lines = captures.rows(
        "select next_status, actor, detail_json from duly.transition where machine = 'capture' order by seq"
    )
    (_, first, _), (_, claimer, _), (_, settler, detail) = lines
    assert (first, settler) == (None, claimer)
    assert (detail["result"]["outcome"], detail["starts"]) == ("changed", 1)
    assert "closedAt" in lines[0][2]


# Closing --------------------------------------------------------------------------------------------------------------


async def test_closed_at_cannot_be_changed_once_set(captures: CaptureActions) -> None:
    key = await captures.open()
    change(captures.admin, "closed_at = duly.clock()")
    assert captures.path(key) == ["pending", "pending"]
    for value in ("null", "closed_at + interval '1 s'"):
        with pytest.raises(psycopg.DatabaseError, match="is closed since") as refusal:
            change(captures.admin, f"closed_at = {value}")
        assert refusal.value.sqlstate == ILLEGAL_TRANSITION
    captures.verify()


async def test_closed_at_cannot_be_cleared_by_a_transition(captures: CaptureActions) -> None:
    await captures.open()
    change(captures.admin, "closed_at = duly.clock()")
    with pytest.raises(psycopg.DatabaseError, match="is closed since"):
        change(captures.admin, f"state = 'processing', {BESIDE['processing']}, closed_at = null")


# Rules ----------------------------------------------------------------------------------------------------------------


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(
    ("state", "what", "rule"),
    [
        ("pending", "error = 'because'", "ck_capture_session__error"),
        ("processing", "error = 'because'", "ck_capture_session__error"),
        ("done", "error = 'because'", "ck_capture_session__error"),
        ("failed", "error = null", "ck_capture_session__error"),
        ("failed", "error = ''", "ck_capture_session__error_text"),
        ("failed", "error = repeat('x', 4001)", "ck_capture_session__error_text"),
        ("pending", "locked_by = 'me'", "ck_capture_session__lease"),
        ("pending", "locked_at = duly.clock()", "ck_capture_session__lease"),
        ("processing", "locked_at = null", "ck_capture_session__lease"),
        ("done", "locked_by = 'me', locked_at = duly.clock()", "ck_capture_session__lease"),
        ("pending", "lease_seconds = 60", "ck_capture_session__lease_seconds"),
        ("processing", "lease_seconds = 0", "ck_capture_session__lease_seconds"),
        ("pending", "settled_by = repeat('x', 301)", "ck_capture_session__owners"),
        ("pending", "starts = -1", "ck_capture_session__starts"),
        ("pending", "result = '{}'", "ck_capture_session__result"),
        ("done", "result = '[]'", "ck_capture_session__result"),
        ("processing", "locked_at = '1999-12-31Z'", "ck_capture_session__years_2000_to_2200"),
    ],
)
async def test_violated_constraint_is_named(state: str, what: str, rule: str, captures: CaptureActions) -> None:
    await captures.open()
    for each in PATHS_TO_STATE[state]:
        move(captures.admin, each)
    with pytest.raises(errors.CheckViolation) as refusal:
        change(captures.admin, what)
    assert refusal.value.diag.constraint_name == rule


async def test_failed_session_requires_an_error(captures: CaptureActions) -> None:
    await captures.open()
    with pytest.raises(errors.CheckViolation) as refusal:
        change(captures.admin, "state = 'failed'")
    assert refusal.value.diag.constraint_name == "ck_capture_session__error"


@pytest.mark.parametrize(
    ("payload", "given_at"),
    [("'[]'", "duly.clock()"), ("'{}'", "null"), ("null", "duly.clock()"), ("'3'", "duly.clock()")],
)
def test_payload_must_be_an_object_and_have_given_at(payload: str, given_at: str, admin: Admin) -> None:
    with pytest.raises(errors.CheckViolation) as refusal:
        admin.execute(
            "insert into schedule_ingest.capture_session (user_id, payload, given_at)"
            f" values (1, {payload}, {given_at})".encode()
        )
    assert refusal.value.diag.constraint_name == "ck_capture_session__payload"


# The SQL --------------------------------------------------------------------------------------------------------------


def test_contract_lists_the_edges_of_the_state_machine() -> None:
    table = "schedule_ingest.capture_session.state"
    drawn = {f"begin {table} {first}" for first in CAPTURE_MACHINE.initial}
    drawn |= {f"edge {table} {one} -> {two}" for one, all_ in CAPTURE_MACHINE.edges.items() for two in all_}
    table = "schedule_ingest.schedule_notification.delivery"
    drawn |= {f"begin {table} {first}" for first in NOTIFICATION_MACHINE.initial}
    drawn |= {f"edge {table} {one} -> {two}" for one, all_ in NOTIFICATION_MACHINE.edges.items() for two in all_}
    assert {line for line in contract_lines("ingest") if line.startswith(("begin ", "edge "))} == drawn


def test_fresh_database_matches_the_contract(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        assert compare(admin, "ingest") == []
