"""Tenant isolation: C1 to C7 of the security checklist, on the ledger's tables."""

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import Misconfigured
from duly.jobs import repository
from duly.verify import INVARIANTS, check
from duly.verify.invariants import VISIBILITY_CHECK
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, JobActions
from tests.support.pooler import needs_pgbouncer, pooler

ROLES = Names()
RUNTIME = (ROLES.worker, ROLES.api, ROLES.readonly)
TABLES = ("ledger.job", "ledger.job_event", "ledger.job_limit")
RIGHTS = ("select", "insert", "update", "delete", "truncate", "references", "trigger")


def act_for(connection: Admin, org: object) -> None:
    """Set the tenant, for this transaction."""
    connection.execute("select set_config('app.current_org_id', %s, true)", [str(org)])


@pytest.fixture
def reader(admin: Admin) -> Generator[Admin, None, None]:
    """A read-only connection."""
    with psycopg.connect(make_conninfo(admin.info.dsn, user=ROLES.readonly), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(
    ("role", "table", "rights"),
    [
        *((role, table, {"select"}) for role in RUNTIME for table in TABLES[:2]),
        (ROLES.worker, "ledger.job_limit", {"select", "insert", "update"}),
        (ROLES.api, "ledger.job_limit", {"select"}),
        (ROLES.readonly, "ledger.job_limit", {"select"}),
    ],
)
def test_c1_each_role_has_exactly_its_table_privileges(role: str, table: str, rights: set[str], admin: Admin) -> None:
    query = "select has_table_privilege(%s, %s, %s)"
    assert {right for right in RIGHTS if admin.execute(query, [role, table, right]).fetchone() == (True,)} == rights


def test_c1_no_runtime_role_may_update_the_request_columns_of_a_job(admin: Admin) -> None:
    query = (
        "select attname from pg_attribute where attrelid = 'ledger.job'::regclass and attnum > 0"
        " and has_column_privilege(%s, attrelid, attnum, 'update')"
    )
    fixed = {
        "id",
        "org_id",
        "type",
        "queue",
        "payload",
        "priority",
        "idempotency_key",
        "request_digest",
        "requested_by",
    }
    fixed |= {"max_attempts", "created_at", "updated_at", "finished_at", "retain_until", "revision", "transition_from"}
    for role in RUNTIME:
        assert not fixed & {name for (name,) in admin.execute(query, [role])}


def test_c1_runtime_roles_own_no_table_and_cannot_create_any(admin: Admin) -> None:
    query = "select count(*) from pg_class where relnamespace = 'ledger'::regnamespace and relowner = %s::regrole"
    for role in RUNTIME:
        assert admin.execute(query, [role]).fetchone() == (0,)
        assert admin.execute("select has_schema_privilege(%s, 'ledger', 'create')", [role]).fetchone() == (False,)
        assert admin.execute("select rolsuper or rolbypassrls from pg_roles where rolname = %s", [role]).fetchone() == (
            False,
        )


@pytest.mark.parametrize(
    "move",
    [
        "update ledger.job set status = 'running', lease_owner = 'me', lease_expires_at = now(), starts = 1",
        'update ledger.job set event_detail = \'{"actor": "another"}\'',
        "select from ledger.job for update",
        "select ledger.done(array(select id from ledger.job), array['me'], null)",
        "select ledger.fence(id, 'me', 'duly_api') from ledger.job",
        "select ledger.complete(id, 'me', null, 'duly_worker') from ledger.job",
        "select * from ledger.mark_expired(null, 1)",
        "insert into ledger.job_event (org_id) select org_id from ledger.job",
    ],
)
def test_c1_api_role_cannot_update_job_state_or_actor(move: str, jobs: JobActions, api: Admin, admin: Admin) -> None:
    job = jobs.enqueue()[0]
    api.execute("select set_config('app.current_org_id', %s, false)", [str(ORG)])
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        api.execute(move.encode())
    assert admin.execute("select status, revision from ledger.job where id = %s", [job]).fetchone() == ("queued", 1)


@pytest.mark.parametrize("acting_for", [None, OTHER_ORG])
@pytest.mark.parametrize(
    "steering", ["cancel(%s, %s)", "redrive(%s, %s)", "release_key(%s, %s)", "redrive_many(%s, 1, %s)"]
)
def test_c1_cancel_redrive_and_release_key_require_the_jobs_org(
    steering: str, acting_for: object, jobs: JobActions, api: Admin
) -> None:
    job = jobs.enqueue()[0]
    api.execute("select set_config('app.current_org_id', %s, false)", [str(acting_for or "")])
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=f"does not act for org {ORG}"):
        api.execute(f"select ledger.{steering}".encode(), [ORG, str(job)])


def test_c2_every_table_with_an_org_is_under_forced_row_security(admin: Admin) -> None:
    query = (
        "select c.relname, c.relrowsecurity and c.relforcerowsecurity,"
        " exists (select from pg_policy p where p.polrelid = c.oid and p.polcmd = '*'"
        " and p.polqual is not null and p.polwithcheck is not null)"
        " from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'org_id'"
        " where c.relnamespace = 'ledger'::regnamespace and c.relkind in ('r', 'p') order by 1"
    )
    assert admin.execute(query).fetchall() == [("job", True, True), ("job_event", True, True)]


@pytest.mark.parametrize("table", TABLES[:2])
def test_c3_tenant_sees_only_its_own_rows_and_no_tenant_sees_none(
    table: str, jobs: JobActions, api: Admin, reader: Admin
) -> None:
    jobs.enqueue(rows=2)
    jobs.enqueue(org=OTHER_ORG)
    for connection in (api, reader):
        for org, seen in ((ORG, 2), (OTHER_ORG, 1)):
            with connection.transaction():
                act_for(connection, org)
                found = connection.execute(f"select org_id from {table}".encode()).fetchall()
                assert found == [(org,)] * seen
            assert connection.execute(f"select from {table}".encode()).fetchall() == []


def test_c3_workers_and_the_owner_see_every_org(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue()
    jobs.enqueue(org=OTHER_ORG)
    for role in (ROLES.worker, ROLES.owner):
        with admin.transaction():
            admin.execute(f"set local role {role}".encode())
            assert admin.execute("select count(*) from ledger.job").fetchone() == (2,)
            assert admin.execute("update ledger.job set run_at = run_at").rowcount == 2


@needs_pgbouncer
def test_c3_tenants_on_one_pooled_connection_see_only_their_own_rows(
    jobs: JobActions, admin: Admin, home: Path
) -> None:
    jobs.enqueue(rows=3)
    jobs.enqueue(org=OTHER_ORG, rows=3)
    with pooler(make_conninfo(admin.info.dsn, user=ROLES.api), home) as address:
        clients = [psycopg.connect(address, prepare_threshold=None) for _ in range(3)]
        for nth in range(60):
            client, org = clients[nth % 3], (ORG, OTHER_ORG, None)[nth * 7 % 5 % 3]
            if org:
                act_for(client, org)
            seen = {found for (found,) in client.execute("select org_id from ledger.job")}
            assert seen == ({org} if org else set())
            client.rollback() if nth % 4 == 0 else client.commit()
        for client in clients:
            client.close()


def test_c4_tenant_cannot_move_or_create_a_job_in_another_org(jobs: JobActions, api: Admin) -> None:
    jobs.enqueue(org=OTHER_ORG)
    (key,) = jobs.columns("id")
    with api.transaction():
        act_for(api, ORG)
        assert api.execute("select ledger.cancel(%s, %s)", [ORG, key]).fetchone() == (None,)
    assert jobs.columns("status") == ["queued"]


async def test_c4_every_tenant_statement_filters_by_org(jobs: JobActions) -> None:
    """The worker's role sees all orgs, so these find nothing only because they filter by org."""
    (key,) = jobs.enqueue(org=OTHER_ORG)
    assert await repository.find_job(jobs.worker, ORG, key) is None
    assert await repository.list_jobs(jobs.worker, ORG) == []
    assert await repository.list_events(jobs.worker, ORG, key) == []
    assert await jobs.steer(repository.cancel_job, ORG, key, "anna") is None
    assert not await jobs.steer(repository.redrive, ORG, key, "anna")


def test_c5_key_of_another_org_is_not_revealed(jobs: JobActions, api: Admin) -> None:
    jobs.enqueue(org=OTHER_ORG, key="k", payload={"theirs": True})
    with api.transaction():
        act_for(api, ORG)
        (answer,) = api.execute("select outcome from ledger.enqueue(%s, 'work', '{}', 'k')", [ORG]).fetchall()
    assert answer == ("created",)


def test_c6_security_definer_functions_fix_search_path_and_are_not_public(admin: Admin) -> None:
    query = (
        "select p.proname, p.proconfig @> array['search_path=pg_catalog, pg_temp'],"
        " p.proowner = %s::regrole, p.proacl is not null and not exists"
        " (select from aclexplode(p.proacl) as a where a.grantee = 0)"
        " from pg_proc p where p.pronamespace = 'ledger'::regnamespace and p.prosecdef order by 1"
    )
    found = admin.execute(query, [ROLES.owner]).fetchall()
    assert [name for name, *_ in found] == [
        *("cancel", "claim", "done", "enqueue", "enqueue_many", "erase", "is_locked", "job_timeline"),
        *("job_timeline_insert", "purge", "redrive", "redrive_many", "release_key", "wake"),
    ]
    assert all(all(facts) for _, *facts in found)


def test_c6_temporary_table_of_the_caller_cannot_shadow_a_duly_table(jobs: JobActions, api: Admin) -> None:
    api.execute("create temporary table job (id uuid, org_id uuid)")
    api.execute("create function pg_temp.clock() returns timestamptz language sql return 'epoch'::timestamptz")
    api.execute("set search_path = pg_temp, ledger, duly")
    api.execute("select ledger.enqueue(%s, 'work')", [ORG])
    assert api.execute("select count(*) from pg_temp.job").fetchone() == (0,)
    assert len(jobs.columns("id")) == 1


def test_c7_leaky_function_in_a_condition_sees_no_row_of_another_org(
    jobs: JobActions, admin: Admin, api: Admin
) -> None:
    jobs.enqueue(org=OTHER_ORG, payload={"secret": True})
    api.execute(
        "create function pg_temp.peek(what jsonb) returns boolean language plpgsql cost 0.0001 as"
        " $$ begin raise exception 'saw %', what; end $$"
    )
    with api.transaction():
        act_for(api, ORG)
        assert api.execute("select from ledger.job where pg_temp.peek(payload)").fetchall() == []


async def test_handler_transaction_runs_as_the_api_role_and_settles_in_it(jobs: JobActions) -> None:
    """What `ctx.transaction()` and `ctx.complete()` do: set the org, drop to the API's role, settle as the worker."""
    (key,) = jobs.enqueue()
    (lease,) = await jobs.claim()
    login = make_conninfo(jobs.admin.info.dsn, user=ROLES.worker)
    async with await connect(login) as worker, worker.transaction():
        assert await repository.fence(worker, lease, ROLES.api)
        for _ in range(2):
            cursor = await worker.execute("select current_user::text, current_setting('app.current_org_id')")
            assert await cursor.fetchone() == (ROLES.api, str(ORG))
            await repository.complete(worker, lease, "well", None)
    assert jobs.columns("id", "status", "result") == [(key, "succeeded", "well")]


def test_verify_refuses_to_check_rows_hidden_by_row_security(admin: Admin, api: Admin) -> None:
    (seeing,) = (each for each in INVARIANTS if each.name == VISIBILITY_CHECK)
    with pytest.raises(Misconfigured, match=r"ledger\.job is under row security.*; ledger\.job_event is"):
        check(api, ["ledger"], [seeing])
    with psycopg.connect(make_conninfo(admin.info.dsn, user=ROLES.worker), autocommit=True) as worker:
        assert check(worker, ["ledger"], [seeing]) == []
