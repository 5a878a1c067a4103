"""The transitions of a job, one by one, and the SQL that enforces them."""

import itertools

import psycopg
import pytest
from psycopg import sql

from duly.jobs.model import TERMINAL, JobStatus
from duly.verify import compare
from duly.verify.contract import contract_lines
from tests.support.jobs.actions import ORG, Admin, JobActions
from tools.state_machines.jobs import JOB_MACHINE
from tools.state_machines.model import ILLEGAL_TRANSITION

UNHELD = "lease_owner = null, lease_expires_at = null"
BESIDE = {
    "queued": UNHELD + ", starts = 0",
    "running": "lease_owner = 'me/1', lease_expires_at = duly.clock(), starts = 1",
    "failed": "lease_owner = 'me/1', lease_expires_at = null, last_error_code = 'OOPS'",
    "succeeded": UNHELD,
    "canceled": UNHELD,
    "dead_letter": UNHELD + ", last_error_code = 'OOPS'",
}
PATHS_TO_STATUS = {
    "queued": [],
    "running": ["running"],
    "succeeded": ["running", "succeeded"],
    "failed": ["running", "failed"],
    "canceled": ["canceled"],
    "dead_letter": ["running", "failed", "dead_letter"],
}
EVERY_STATUS = tuple(status.value for status in JobStatus)


def move(admin: Admin, to: str) -> None:
    """Change the status of the only job, by a plain update."""
    admin.execute(f"update ledger.job set status = '{to}', {BESIDE[to]}".encode())


@pytest.mark.breaks_invariants
@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(EVERY_STATUS, 2)))
def test_every_transition_is_allowed_or_refused_as_declared(before: str, after: str, jobs: JobActions) -> None:
    (key,) = jobs.enqueue()
    for each in PATHS_TO_STATUS[before]:
        move(jobs.admin, each)
    if JOB_MACHINE.allows(before, after):
        move(jobs.admin, after)
        assert jobs.path(key) == ["queued", *PATHS_TO_STATUS[before], after]
        assert [at is not None for at in jobs.columns("finished_at")] == [after in TERMINAL]
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot go from {before} to {after}") as refusal:
        move(jobs.admin, after)
    assert refusal.value.sqlstate == ILLEGAL_TRANSITION


@pytest.mark.parametrize("status", EVERY_STATUS)
def test_insert_is_checked_as_a_transition(status: str, admin: Admin) -> None:
    insert = sql.SQL("insert into ledger.job (org_id, type, status) values ({}, 'work', {})").format(ORG, status)
    if status == "queued":
        admin.execute(insert)
        return
    with pytest.raises(psycopg.DatabaseError, match=f"cannot begin as {status}"):
        admin.execute(insert)


def test_caller_cannot_write_revision_or_columns_set_by_the_guard(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue()
    admin.execute(
        "update ledger.job set revision = 77, transition_from = 'nowhere', event_detail = '{}',"
        " updated_at = '2001-01-01Z'"
    )
    assert jobs.columns("revision", "transition_from", "event_detail") == [(1, None, None)]
    admin.execute(
        "update ledger.job set status = 'canceled', finished_at = '2001-01-01Z', started_at = '2001-01-01Z',"
        " retain_until = '2001-01-01Z', attempt = 9"
    )
    assert jobs.columns("started_at", "attempt") == [(None, 0)]
    assert all(at.year > 2001 for row in jobs.columns("finished_at", "retain_until", "updated_at") for at in row)


def test_each_row_moved_by_one_statement_writes_its_own_event(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=50)
    admin.execute("update ledger.job set status = 'canceled'")
    assert admin.execute("select seq, count(*) from ledger.job_event group by seq order by seq").fetchall() == [
        (1, 50),
        (2, 50),
    ]
    jobs.verify()


def test_contract_lists_the_edges_of_the_state_machine() -> None:
    drawn = {f"begin ledger.job.status {first}" for first in JOB_MACHINE.initial}
    drawn |= {f"edge ledger.job.status {one} -> {two}" for one, all_ in JOB_MACHINE.edges.items() for two in all_}
    assert {line for line in contract_lines("ledger") if line.startswith(("begin ", "edge "))} == drawn


def test_fresh_database_matches_the_contract(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        assert compare(admin, "ledger") == []
