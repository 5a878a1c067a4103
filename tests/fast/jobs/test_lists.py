"""Lists and what they do not tell: more of C1 to C7 of the security checklist, where `test_tenants.py` leaves off.

There: rights, forced row security, the tenant of a transaction and of a pooled one, keys, functions that run as their
owner, the index of every list. Here: the same lists when their plans are made for good, page by page; what sums, joins,
statistics and refusals give away; and our own pool, service and roles.
"""

import inspect
import itertools
from collections.abc import AsyncGenerator
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.errors import InsufficientPrivilege

from duly.db.pool import Pool, open_pool
from duly.errors import DulyError, NotFound
from duly.jobs import repository, service
from duly.jobs.model import DeadLetterFilter, JobRequest
from tests.fast.jobs.test_tenants import ROLES, act_for
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, JobActions

GLOBAL = {"list_limits", "pause", "resume"}  # queues and types are every org's


@pytest.fixture
async def pool(admin: Admin) -> AsyncGenerator[Pool, None]:
    """The API's pool, with one connection that all tests share."""
    async with open_pool(make_conninfo(admin.info.dsn, user=ROLES.api), size=1) as pool:
        yield pool


def test_c7_every_view_is_security_invoker(admin: Admin) -> None:
    query = (
        "select relname from pg_class where relnamespace = 'ledger'::regnamespace and relkind in ('v', 'm')"
        " and not coalesce('security_invoker=true' = any (reloptions), false)"
    )
    assert admin.execute(query).fetchall() == []


def test_c7_pg_stats_shows_no_rows_of_tables_under_row_security(jobs: JobActions, admin: Admin, api: Admin) -> None:
    jobs.enqueue(rows=50, org=OTHER_ORG, payload={"secret": 42})
    admin.execute("analyze ledger.job, ledger.job_event")
    query = "select tablename, attname from pg_stats where schemaname = 'ledger' and tablename <> 'job_limit'"
    with api.transaction():
        act_for(api, ORG)
        assert api.execute(query).fetchall() == []


@pytest.mark.parametrize(
    "question",
    [
        "select count(*), max(created_at), min(id::text) from ledger.job",
        "select count(*), max(seq), min(id::text) from ledger.job_event",
        "select count(*), null, null from ledger.job j join ledger.job_event e on e.job_id = j.id",
        "select count(*), null, null from ledger.job_event e left join ledger.job j on j.id = e.job_id",
        "select count(*), null, null from ledger.job where org_id in (select org_id from ledger.job_event)",
        "select count(*), null, null from ledger.job where org_id <> current_setting('app.current_org_id')::uuid",
        "select count(*), null, null from (table ledger.job union all table ledger.job) as twice",
        "select count(*), null, null from (select status from ledger.job group by cube (status, type)) as g"
        " where status is not null",
    ],
)
def test_c4_queries_without_an_org_condition_see_no_row_of_another_org(
    question: str, jobs: JobActions, api: Admin
) -> None:
    jobs.enqueue(rows=3, org=OTHER_ORG)
    with api.transaction():
        act_for(api, ORG)
        assert api.execute(question.encode()).fetchall() == [(0, None, None)]
    with api.transaction():
        act_for(api, OTHER_ORG)
        ((count, *_),) = api.execute(question.encode()).fetchall()
        assert count > 0 or "<>" in question


def test_c4_every_service_function_for_a_tenant_takes_an_org() -> None:
    """Row security catches a forgotten condition; the required org parameter catches a forgotten tenant."""
    verbs = {
        name: verb
        for name, verb in inspect.getmembers(service, inspect.iscoroutinefunction)
        if verb.__module__ == service.__name__ and name not in GLOBAL
    }
    assert "enqueue" in verbs
    for name, verb in verbs.items():
        given = inspect.signature(verb).parameters.values()
        assert any(each.name == "org" or each.annotation in (JobRequest, DeadLetterFilter) for each in given), name


def test_c2_without_its_policy_the_table_owner_sees_no_row(jobs: JobActions, admin: Admin) -> None:
    jobs.enqueue(rows=2)
    counts = "select (select count(*) from ledger.job), (select count(*) from ledger.job_event)"
    with admin.transaction(force_rollback=True):
        admin.execute(f"set local role {ROLES.owner}".encode())
        assert admin.execute(counts).fetchone() == (2, 2)
        for table in ("job", "job_event"):
            admin.execute(f"drop policy {table}_of_any_tenant on ledger.{table}".encode())
        assert admin.execute(counts).fetchone() == (0, 0)


def test_c1_no_runtime_role_can_set_a_more_privileged_role(admin: Admin) -> None:
    """A worker can set the API's role, which sees less, as transactions of handlers do."""
    roles = (ROLES.owner, ROLES.worker, ROLES.api, ROLES.readonly)
    query = "select pg_has_role(%s::name, %s::name, 'member')"
    for one, two in itertools.permutations(roles, 2):
        if one != ROLES.owner and (one, two) != (ROLES.worker, ROLES.api):
            assert admin.execute(query, [one, two]).fetchone() == (False,), f"{one} is a member of {two}"


@pytest.mark.parametrize("setting", ["", " ", "*", "not an org", "00000000-0000-0000-0000-00000000000"])
def test_c3_invalid_tenant_setting_sees_no_row(setting: str, jobs: JobActions, api: Admin) -> None:
    jobs.enqueue(rows=2)
    try:
        with api.transaction():
            act_for(api, setting)
            assert api.execute("select from ledger.job").fetchall() == []
            assert setting == ""
    except psycopg.errors.InvalidTextRepresentation:
        assert setting != ""


async def test_c3_tenant_setting_ends_with_its_transaction_in_the_pool(jobs: JobActions, pool: Pool) -> None:
    (key,) = jobs.enqueue()
    assert (await service.get_job(pool, ORG, key)).id == key
    async with pool.transaction() as connection:
        assert (await (await connection.execute("select count(*) from ledger.job")).fetchone()) == (0,)
    with pytest.raises(DulyError):
        await service.redrive_job(pool, ORG, key, "anna")
    async with pool.transaction() as connection:
        assert (await (await connection.execute("select count(*) from ledger.job")).fetchone()) == (0,)


async def test_c5_another_orgs_job_and_a_missing_job_get_the_same_error(jobs: JobActions, pool: Pool) -> None:
    (foreign,) = jobs.enqueue(org=OTHER_ORG)
    before = jobs.events(foreign)
    errors_by_key: dict[UUID, list[str]] = {foreign: [], (absent := uuid4()): []}
    for key, messages in errors_by_key.items():
        for call in (
            service.get_job(pool, ORG, key),
            service.list_events(pool, ORG, key),
            service.cancel_job(pool, ORG, key, "anna"),
            service.cancel_job(pool, ORG, key, "anna", now=True),
            service.redrive_job(pool, ORG, key, "anna"),
        ):
            with pytest.raises(NotFound) as refusal:
                await call
            messages.append(str(refusal.value).replace(str(key), "KEY"))
    assert errors_by_key[foreign] == errors_by_key[absent]
    assert jobs.events(foreign) == before


async def test_c5_dead_letters_of_another_org_are_neither_counted_nor_redriven(jobs: JobActions, pool: Pool) -> None:
    jobs.enqueue(org=OTHER_ORG, max_attempts=1)
    await jobs.fail(*await jobs.claim())
    assert await service.count_dead_letters(pool, DeadLetterFilter(ORG)) == 0
    assert await service.redrive_jobs(pool, DeadLetterFilter(ORG), "anna") == 0
    async with pool.transaction() as connection:  # and not by asking for them under one's own tenant
        await repository.set_org(connection, ORG)
        assert await repository.count_dead_letters(connection, DeadLetterFilter(OTHER_ORG)) == 0
        with pytest.raises(InsufficientPrivilege, match="does not act for org"):
            await repository.redrive_many(connection, DeadLetterFilter(OTHER_ORG), "anna")
    assert jobs.columns("status") == ["dead_letter"]


def test_c5_api_role_cannot_reference_job_tables_by_foreign_key(admin: Admin, api: Admin) -> None:
    admin.execute(f"create schema playground authorization {ROLES.api}".encode())
    for table in ("job", "job_event"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            api.execute(f"create table playground.probe (id uuid references ledger.{table} (id))".encode())


def test_c6_functions_fix_search_path_and_are_not_executable_by_public(admin: Admin) -> None:
    """Functions with SECURITY DEFINER are in `test_tenants.py`; others must not depend on the caller's search path."""
    query = (
        "select p.proname from pg_proc p join pg_language l on l.oid = p.prolang"
        " where p.pronamespace = 'ledger'::regnamespace and p.prosqlbody is null"
        " and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false) order by 1"
    )
    assert admin.execute(query).fetchall() == [("job_guard",)]  # which names nothing without its schema
    public = (
        "select p.proname from pg_proc p where p.pronamespace = 'ledger'::regnamespace"
        " and has_function_privilege('public', p.oid, 'execute')"
    )
    assert admin.execute(public).fetchall() == []
