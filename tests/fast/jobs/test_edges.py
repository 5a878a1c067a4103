"""Every pair of states and every first state, by plain statements of the role that may make them.

`test_machine.py` shows the same edges to a superuser; here it is the worker's own rights, one event for every edge that
is drawn, and for every other nothing: no event, no change. The API has no such rights (`test_tenants.py`).
"""

from collections.abc import Generator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.jobs.model import TERMINAL, JobStatus
from tests.fast.jobs.test_machine import BESIDE, PATHS_TO_STATUS
from tests.support.jobs.actions import ORG, Admin, JobActions
from tools.state_machines.jobs import JOB_MACHINE
from tools.state_machines.model import ILLEGAL_TRANSITION

STATES = tuple(status.value for status in JobStatus)


@pytest.fixture
def mover(admin: Admin) -> Generator[Admin, None, None]:
    """A connection with a role that may change jobs."""
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as connection:
        yield connection


def move(connection: Admin, key: UUID, to: str) -> int:
    """Change the status of a job and the columns that depend on it; return the number of rows."""
    return connection.execute(
        f"update ledger.job set status = '{to}', {BESIDE[to]} where id = %s".encode(), [key]
    ).rowcount


def everything(jobs: JobActions, key: UUID) -> tuple[Any, ...]:
    """Return the full row and all events."""
    row = jobs.admin.execute("select to_jsonb(j) from ledger.job j where id = %s", [key]).fetchone()
    return (row, jobs.events(key))


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("before", STATES)
def test_job_moves_only_along_the_edges_of_its_state_machine(before: str, jobs: JobActions, mover: Admin) -> None:
    keys = jobs.enqueue(rows=len(STATES))
    for key, after in zip(keys, STATES, strict=True):
        for each in PATHS_TO_STATUS[before]:
            assert move(mover, key, each) == 1
        was, log = everything(jobs, key)
        if JOB_MACHINE.allows(before, after):
            assert move(mover, key, after) == 1
            assert [(one, two) for one, two, _ in jobs.events(key)[len(log) :]] == [(before, after)]
            continue
        if before == after:  # to stay is no move: allowed, and not worth a word
            assert move(mover, key, after) == 1
            assert jobs.events(key) == log
            continue
        with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as refusal:
            move(mover, key, after)
        assert refusal.value.sqlstate == ILLEGAL_TRANSITION
        assert everything(jobs, key) == (was, log)
    assert all(numbers(jobs, key) == list(range(1, len(jobs.events(key)) + 1)) for key in keys)


def numbers(jobs: JobActions, key: UUID) -> list[int]:
    """Return the sequence numbers of a job's events."""
    query = "select seq from ledger.job_event where job_id = %s order by seq"
    return [seq for (seq,) in jobs.admin.execute(query, [key])]


@pytest.mark.parametrize("status", STATES)
def test_job_is_inserted_only_as_queued_even_by_the_table_owner(status: str, jobs: JobActions, admin: Admin) -> None:
    message = f"cannot begin as {status}"
    insert = f"insert into ledger.job (org_id, type, status) values ('{ORG}', 'work', '{status}')".encode()
    with admin.transaction():
        admin.execute(f"set local role {Names().owner}".encode())
        if status in JOB_MACHINE.initial:
            admin.execute(insert)
        else:
            with (
                pytest.raises(psycopg.DatabaseError, match=message) as refusal,
                admin.transaction(),
            ):
                admin.execute(insert)
            assert refusal.value.sqlstate == ILLEGAL_TRANSITION
    made = [(None, "queued")] if status in JOB_MACHINE.initial else []
    moves = admin.execute("select prev_status, next_status from ledger.job_event").fetchall()
    assert moves == made
    assert len(jobs.columns("id")) == len(made)


@pytest.mark.parametrize("status", STATES)
def test_runtime_role_cannot_insert_a_job_directly(status: str, jobs: JobActions, mover: Admin) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        mover.execute("insert into ledger.job (org_id, type, status) values (%s, 'work', %s)", [ORG, status])
    assert jobs.columns("id") == []


def test_one_illegal_transition_rolls_back_the_whole_statement(jobs: JobActions, mover: Admin) -> None:
    waiting, ended = jobs.enqueue(rows=2)
    move(mover, ended, "canceled")
    before = [everything(jobs, key) for key in (waiting, ended)]
    with pytest.raises(psycopg.DatabaseError, match="cannot go from canceled to running"):
        mover.execute(f"update ledger.job set status = 'running', {BESIDE['running']}".encode())
    assert [everything(jobs, key) for key in (waiting, ended)] == before


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("end", sorted(TERMINAL - {JobStatus.DEAD_LETTER}))
def test_succeeded_or_canceled_job_never_changes_state_again(end: str, jobs: JobActions, mover: Admin) -> None:
    assert JOB_MACHINE.edges.get(end, ()) == ()
    (key,) = jobs.enqueue()
    for each in PATHS_TO_STATUS[end]:
        move(mover, key, each)
    for after in sorted(set(STATES) - {end}):
        with pytest.raises(psycopg.DatabaseError, match="cannot go from"):
            move(mover, key, after)
    assert jobs.path(key) == ["queued", *PATHS_TO_STATUS[end]]


@pytest.mark.breaks_invariants
def test_change_of_lease_owner_writes_an_event(jobs: JobActions, mover: Admin) -> None:
    (key,) = jobs.enqueue()
    move(mover, key, "running")
    mover.execute("update ledger.job set lease_owner = 'me/2' where id = %s", [key])
    mover.execute("update ledger.job set lease_owner = 'me/2', lease_expires_at = duly.clock() where id = %s", [key])
    assert [(before, after, detail["actor"]) for before, after, detail in jobs.events(key)[1:]] == [
        ("queued", "running", "me/1"),
        ("running", "running", "me/2"),
    ]
