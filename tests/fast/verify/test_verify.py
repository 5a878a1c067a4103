"""`duly verify` finds what was planted, and nothing in a database that is in order."""

import re
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.errors import InvalidArgument, Misconfigured
from duly.launcher import ROOT
from duly.verify import INVARIANTS, Invariant, check, compare, select_invariants
from duly.verify.contract import CONTRACTS, contract_lines
from tests.support.invariants import find_contract_differences
from tests.support.planted_violations import FINISHED_SESSION, PLANTED_VIOLATIONS, violated_invariant
from tools.state_machines.outbox import OUTBOX_MACHINE

pytestmark = pytest.mark.breaks_invariants  # violations are planted

Admin = psycopg.Connection[Any]
SCHEMAS = CONTRACTS["duly"]
PLANTED_DIFFERENCES = {
    "a table that is gone": ("drop table duly.workers", "missing", "table duly.workers"),
    "a table too many": ("create table duly.extra ()", "unexpected", "table duly.extra"),
    "a column that is gone": ("alter table duly.workers drop column slots", "missing", "column duly.workers.slots"),
    "a column of another type": (
        "alter table duly.workers alter column pid type integer",
        "unexpected",
        "column duly.workers.pid integer",
    ),
    "a column that may be empty": (
        "alter table duly.orgs alter column name drop not null",
        "missing",
        "duly.orgs.name",
    ),
    "a check that is gone": ("alter table duly.orgs drop constraint ck_orgs__name", "missing", "ck_orgs__name"),
    "an index that is gone": ("drop index duly.idx_transition__ts", "missing", "idx_transition__ts"),
    "a trigger that is gone": (
        "drop trigger transition_is_append_only on duly.transition",
        "missing",
        "transition_is_append_only",
    ),
    "a trigger that sleeps": (
        "alter table duly.transition disable trigger transition_is_append_only",
        "unexpected",
        "not enabled",
    ),
    "a function that does something else": (
        "create or replace function duly.clock() returns timestamptz language sql volatile return 'epoch'::timestamptz",
        "unexpected",
        "1970",
    ),
    "a grant too many": ("grant delete on duly.transition to duly_worker", "unexpected", "grant delete on table"),
    "a grant that is gone": ("revoke select on duly.orgs from duly_api", "missing", "grant select on table duly.orgs"),
    "row security switched on": (
        "alter table duly.orgs enable row level security",
        "unexpected",
        "table duly.orgs owner duly_owner row security",
    ),
    "a right to a sequence too many": (
        "grant update on sequence duly.wake_outbox to duly_api",
        "unexpected",
        "grant update on sequence duly.wake_outbox to duly_api",
    ),
    "a guard that sleeps": (
        "alter table duly.outbox disable trigger outbox_guard",
        "missing",
        "edge duly.outbox.status pending -> sending",
    ),
    "a guard that never sees an insert": (
        "drop trigger outbox_guard on duly.outbox;"
        " create trigger outbox_guard before update on duly.outbox for each row execute function duly.outbox_guard()",
        "missing",
        "begin duly.outbox.status pending",
    ),
    "an enum with another value": (
        "alter type ledger.job_status add value 'lost'",
        "unexpected",
        "enum ledger.job_status",
    ),
    "a policy that is gone": (
        "drop policy job_of_tenant on ledger.job",
        "missing",
        "policy ledger.job.job_of_tenant *",
    ),
    "a policy that hides every row": (
        "drop policy job_of_any_tenant on ledger.job; create policy job_of_any_tenant on ledger.job as restrictive"
        " to duly_owner, duly_worker using (true) with check (true)",
        "unexpected",
        "policy ledger.job.job_of_any_tenant restrictive *",
    ),
    "a view that shows something else": (
        "create or replace view posts.documents with (security_invoker = true) as"
        " select id, author_id, status, created_at, '{}'::jsonb as document from posts.posts as p",
        "unexpected",
        "security_invoker=true as SELECT id, author_id, status, created_at, '{}'::jsonb AS document",
    ),
    "another owner": ("alter table duly.orgs owner to postgres", "unexpected", "table duly.orgs owner postgres"),
}


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """A migrated database of each major version."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def test_sound_database_has_no_difference_and_no_violation(admin: Admin) -> None:
    assert find_contract_differences(admin) == []
    assert check(admin, SCHEMAS) == []


@pytest.mark.parametrize("planted", PLANTED_DIFFERENCES)
def test_a_planted_difference_is_found(planted: str, admin: Admin) -> None:
    statement, kind, expected_text = PLANTED_DIFFERENCES[planted]
    admin.execute(statement.encode())
    differences = [each for contract in CONTRACTS for each in compare(admin, contract)]
    assert [each for each in differences if each.kind == kind and expected_text in each.line], differences


def change_guard(admin: Admin, before: str, after: str) -> set[tuple[str, str]]:
    """Replace a piece of the guard that runs; the edges in which the database then differs."""
    (source,) = admin.execute("select pg_get_functiondef('duly.outbox_guard()'::regprocedure)").fetchone() or [""]
    assert before in source
    admin.execute(source.replace(before, after).encode())
    differences = [(each.kind, each.line) for each in compare(admin, "duly")]
    return {each for each in differences if not each[1].startswith("function ")}


def test_guard_with_an_additional_edge_is_reported_with_it(admin: Admin) -> None:
    more = "when 'sent' then new.\"status\"::text = any (array['pending']) else false"
    assert change_guard(admin, "else false", more) == {("unexpected", "edge duly.outbox.status sent -> pending")}


def test_guard_without_an_edge_is_reported_with_it(admin: Admin) -> None:
    found = change_guard(admin, "array['sending', 'failed']", "array['sending']")
    assert found == {("missing", "edge duly.outbox.status pending -> failed")}


def test_guard_with_an_additional_initial_state_is_reported_with_it(admin: Admin) -> None:
    found = change_guard(admin, "array['pending'])) then", "array['pending', 'sent'])) then")
    assert found == {("unexpected", "begin duly.outbox.status sent")}


def test_edge_inside_a_comment_does_not_count(admin: Admin) -> None:
    found = change_guard(admin, "array['sending', 'failed']", "array['sending' /* , 'failed' */]")
    assert found == {("missing", "edge duly.outbox.status pending -> failed")}


def test_contract_lists_the_edges_of_the_state_machine() -> None:
    drawn = {f"begin duly.outbox.status {first}" for first in OUTBOX_MACHINE.initial}
    drawn |= {f"edge duly.outbox.status {one} -> {two}" for one, all_ in OUTBOX_MACHINE.edges.items() for two in all_}
    assert {line for line in contract_lines("duly") if line.startswith(("begin ", "edge "))} == drawn


def test_a_regular_capture_violates_no_invariant(admin: Admin) -> None:
    admin.execute(FINISHED_SESSION.encode())
    assert check(admin, SCHEMAS) == []


def test_a_day_with_events_of_another_program_is_not_checked(admin: Admin) -> None:
    admin.execute(FINISHED_SESSION.encode())
    admin.execute("update schedule_ingest.day_snapshot set snapshot_payload = '[]', events = 0")
    admin.execute("update schedule_ingest.schedule_event set seq = null")
    assert check(admin, SCHEMAS) == []


def test_every_invariant_belongs_to_one_contract_or_to_all() -> None:
    assert {each.contract for each in INVARIANTS} == {None, *CONTRACTS}
    for contract in CONTRACTS:
        assert {each.contract for each in select_invariants([contract])} == {None, contract}


def test_an_invariant_about_missing_objects_is_reported_as_unchecked(admin: Admin) -> None:
    admin.execute("drop schema schedule_ingest cascade")
    violations = check(admin, SCHEMAS)
    assert {violation.kind for violation in violations} == {"unchecked"}
    of_ingest = {each.name for each in INVARIANTS if each.contract == "ingest"}
    of_the_log_alone = {"captures_follow_their_state_machine", "notifications_follow_their_state_machine"}
    assert {each.invariant for each in violations} == (of_ingest - of_the_log_alone) | {"versions_have_their_hash"}
    assert "does not exist" in violations[0].offender


def test_verify_refuses_a_login_that_cannot_see_every_row(admin: Admin) -> None:
    admin.execute("alter table duly.orgs enable row level security")
    blind = psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api), autocommit=True)
    checked_counts: list[int] = []
    with blind, pytest.raises(Misconfigured) as refusal:
        check(blind, SCHEMAS, on_progress=checked_counts.append)
    for expected_text in (
        "duly_api does not see",
        "duly.orgs is under row security",
        "run it with the login that migrated",
    ):
        assert expected_text in str(refusal.value)
    assert "grant" not in str(refusal.value)
    assert checked_counts == [0], "other invariants ran without the right to see the rows"


def test_verify_without_permission_on_a_table_reports_the_grant(admin: Admin) -> None:
    admin.execute("revoke select on posts.posts from duly_worker, duly_readonly")
    with (
        psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as worker,
        pytest.raises(Misconfigured) as refusal,
    ):
        check(worker, CONTRACTS["posts"], select_invariants(["posts"]), reader=Names().worker)
    assert "duly_worker may not read posts.posts" in str(refusal.value)
    assert str(refusal.value).endswith("run: grant select on posts.posts to duly_worker")
    with (
        psycopg.connect(make_conninfo(admin.info.dsn, user=Names().readonly), autocommit=True) as other,
        pytest.raises(Misconfigured, match="run it with the login that migrated"),
    ):
        check(other, CONTRACTS["posts"], select_invariants(["posts"]))


def test_table_owner_may_check_every_invariant(admin: Admin) -> None:
    admin.execute("set role duly_owner")
    assert check(admin, SCHEMAS) == []


def test_every_invariant_has_a_planted_violation() -> None:
    planted = {violated_invariant(each) for each in PLANTED_VIOLATIONS}
    names = {"versions_have_their_hash", *(invariant.name for invariant in INVARIANTS)}
    assert {*planted, "every_role_sees_every_row"} == names
    assert all(invariant.description for invariant in INVARIANTS)


def test_docs_list_exactly_the_invariants() -> None:
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", (ROOT / "docs" / "verify.md").read_text()))
    names = {"versions_have_their_hash", *(invariant.name for invariant in INVARIANTS)}
    assert names - named == set()
    assert {each for each in named - names if each.count("_") > 1} == {"pg_get_constraintdef"}


def test_verify_does_not_wait_for_writers(admin: Admin, database: str) -> None:
    with psycopg.connect(database) as busy:
        busy.execute(
            "lock table duly.transition, duly.orgs, duly.api_keys, duly.outbox, ledger.job, ledger.job_event,"
            " schedule_ingest.capture_session, schedule_ingest.schedule_version, schedule_ingest.schedule_event"
            " in share row exclusive mode"
        )
        assert check(admin, SCHEMAS) == []


def test_verify_takes_only_access_share_locks(admin: Admin, database: str) -> None:
    admin.execute(FINISHED_SESSION.encode())
    locks_held: set[tuple[str, str]] = set()
    with psycopg.connect(database, autocommit=True) as other:

        def record_locks(_: int) -> None:
            locks = other.execute("select locktype, mode from pg_locks where pid = %s", [admin.info.backend_pid])
            locks_held.update((kind, mode) for kind, mode in locks)

        check(admin, SCHEMAS, on_progress=record_locks)
    assert {mode for kind, mode in locks_held if kind == "relation"} == {"AccessShareLock"}
    assert {kind for kind, _ in locks_held} == {"relation", "virtualxid"}


def test_compare_takes_only_access_share_locks(admin: Admin, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as other, admin.transaction():
        for contract in CONTRACTS:
            compare(admin, contract)
        locks_held = other.execute(
            "select locktype, mode from pg_locks where pid = %s", [admin.info.backend_pid]
        ).fetchall()
    assert {mode for kind, mode in locks_held if kind == "relation"} == {"AccessShareLock"}
    assert {kind for kind, _ in locks_held} == {"relation", "virtualxid"}


def test_verify_writes_nothing_and_runs_on_a_read_only_connection(database: str) -> None:
    read_only = "-c default_transaction_read_only=on"
    with psycopg.connect(database, autocommit=True, options=read_only) as connection:
        assert check(connection, SCHEMAS) == []
    writing = Invariant("writes", "It writes.", "insert into duly.orgs (name) values ('new') returning name")
    with (
        psycopg.connect(database, autocommit=True) as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        check(connection, SCHEMAS, [writing])


def test_verify_restores_work_mem(admin: Admin) -> None:
    def work_mem() -> str:
        (value,) = admin.execute("show work_mem").fetchone() or [""]
        return value

    seen: set[str] = set()
    before = work_mem()
    check(admin, SCHEMAS, INVARIANTS[:1], on_progress=lambda _: seen.add(work_mem()))
    assert seen == {"128MB"}
    assert work_mem() == before
    admin.execute("set work_mem = '256MB'")
    check(admin, SCHEMAS, INVARIANTS[:1], on_progress=lambda _: seen.add(work_mem()))
    assert seen == {"128MB", "256MB"}


def test_renamed_roles_are_not_a_difference() -> None:
    lines = contract_lines("duly", Names(owner="boss"))
    assert any("owner boss" in line for line in lines)
    assert not any("duly_owner" in line for line in lines)


def test_unknown_contract_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no contract 'nothing'"):
        contract_lines("nothing")
