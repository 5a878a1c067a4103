"""Lists and what they do not tell: more of C1 to C7 of the security checklist, where `test_tenants.py` leaves off.

There: rights, forced row security, the tenant of a transaction and of a pooled one, keys, functions that run as their
owner, the index of every list. Here: the same lists when their plans are made for good, page by page; what sums, joins,
statistics and refusals give away; and our own pool, service and roles.
"""

import inspect
import itertools
from collections.abc import AsyncGenerator
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.pool import Pool, open_pool
from duly.errors import DulyError, NotFound
from duly.ledger import service, store
from duly.ledger.model import DeadLetters, Request, Status
from tests.ledger.hands import ORG, OTHER_ORG, Admin, Hands
from tests.ledger.test_machine import BESIDE, WAYS
from tests.ledger.test_majors import PLACE
from tests.ledger.test_tenants import ROLES, act_for

ROWS = 5_000  # of each org: some 350 blocks
FEW = 60
PAGE_BLOCKS = 150
TYPES = {
    "org": "uuid",
    "status": "ledger.job_status",
    "type": "text",
    "queue": "text",
    "finished_from": "timestamptz",
    "finished_before": "timestamptz",
    "before_at": "timestamptz",
    "before_id": "uuid",
    "most": "bigint",
}
GLOBAL = {"list_limits", "pause", "resume"}  # queues and types are every org's


@pytest.fixture
async def pool(admin: Admin) -> AsyncGenerator[Pool, None]:
    """The API's own pool, of one connection that everybody shares."""
    async with open_pool(make_conninfo(admin.info.dsn, user=ROLES.api), size=1) as pool:
        yield pool


def fill(admin: Admin, status: str) -> None:
    """Many jobs of two orgs that wait, and few of ours with this status, the oldest."""
    insert = "insert into ledger.job (org_id, type) select %s, 'work' from generate_series(1, %s)"
    admin.execute(insert, [ORG, FEW])
    for each in WAYS[status]:
        admin.execute(f"update ledger.job set status = '{each}', {BESIDE[each]}".encode())
    for org in (ORG, OTHER_ORG):
        admin.execute(insert, [org, ROWS])
    admin.execute("vacuum analyze ledger.job")


def prepare_list(api: Admin) -> list[str]:
    """Prepare the list as a connection does that has asked often; the names of its parameters."""
    text = store.SQL.statements["list_jobs"]
    names = list(dict.fromkeys(PLACE.findall(text)))
    numbered = PLACE.sub(lambda place: f"${names.index(place[1]) + 1}", text)
    api.execute(f"prepare asked ({', '.join(TYPES[each] for each in names)}) as {numbered}".encode())
    return names


def page(api: Admin, names: list[str], explain: str = "", **given: Any) -> list[Any]:
    """A page of twenty, or how it is found."""
    default = {"org": ORG, "before_at": store.END[0], "before_id": store.END[1], "most": 20}
    values = sql.SQL(", ").join(sql.Literal((default | given).get(name)) for name in names)
    return api.execute(sql.SQL("{} execute asked ({})").format(sql.SQL(explain), values)).fetchall()  # type: ignore[arg-type]


def blocks(api: Admin, names: list[str], **given: Any) -> int:
    """How many pages of the disk a page of the list takes."""
    ((document,),) = page(api, names, "explain (analyze, buffers, format json)", **given)
    plan = document[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.lawless
@pytest.mark.parametrize("status", [status.value for status in Status if status is not Status.QUEUED])
def test_c7_a_list_by_status_reads_few_blocks_however_often_it_was_asked(status: str, admin: Admin, api: Admin) -> None:
    fill(admin, status)
    with api.transaction():
        act_for(api, ORG)
        names = prepare_list(api)
        for _ in range(8):  # until the planner has made up its mind
            assert len(page(api, names, status=status)) == 20
        assert blocks(api, names, status=status) < PAGE_BLOCKS
        assert blocks(api, names, status=status, type="work", queue="default") < PAGE_BLOCKS


def test_c7_every_page_of_a_list_is_as_cheap_as_the_first(admin: Admin, api: Admin) -> None:
    fill(admin, "canceled")
    with api.transaction():
        act_for(api, ORG)
        names = prepare_list(api)
        place = "select created_at, id from ledger.job order by created_at desc, id desc offset %s limit 1"
        for offset in (0, 20, ROWS // 2, ROWS - 20):
            ((before_at, before_id),) = api.execute(place, [offset]).fetchall()
            for status in (None, "queued"):
                where: dict[str, Any] = {"before_at": before_at, "before_id": before_id, "status": status}
                assert len(page(api, names, **where)) == 20 or (offset == ROWS - 20 and status)
                assert blocks(api, names, **where) < PAGE_BLOCKS


def test_c7_no_view_shows_what_its_reader_may_not_see(admin: Admin) -> None:
    asked = (
        "select relname from pg_class where relnamespace = 'ledger'::regnamespace and relkind in ('v', 'm')"
        " and not coalesce('security_invoker=true' = any (reloptions), false)"
    )
    assert admin.execute(asked).fetchall() == []


def test_c7_statistics_tell_nothing_of_a_table_under_row_security(hands: Hands, admin: Admin, api: Admin) -> None:
    hands.put(rows=50, org=OTHER_ORG, payload={"secret": 42})
    admin.execute("analyze ledger.job, ledger.job_event")
    asked = "select tablename, attname from pg_stats where schemaname = 'ledger' and tablename <> 'job_limit'"
    with api.transaction():
        act_for(api, ORG)
        assert api.execute(asked).fetchall() == []


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
def test_c4_neither_sums_nor_joins_nor_a_forgotten_condition_reach_another_org(
    question: str, hands: Hands, api: Admin
) -> None:
    hands.put(rows=3, org=OTHER_ORG)
    with api.transaction():
        act_for(api, ORG)
        assert api.execute(question.encode()).fetchall() == [(0, None, None)]
    with api.transaction():
        act_for(api, OTHER_ORG)
        ((count, *_),) = api.execute(question.encode()).fetchall()
        assert count > 0 or "<>" in question


def test_c4_every_verb_for_a_tenant_takes_an_org() -> None:
    """Row security stops a forgotten condition; that the verbs ask for an org stops a forgotten tenant."""
    for name in sorted({*service.__all__} - GLOBAL):
        given = inspect.signature(getattr(service, name)).parameters.values()
        assert any(each.name == "org" or each.annotation in (Request, DeadLetters) for each in given), name


def test_c2_without_a_policy_of_its_own_even_the_owner_would_see_nothing(hands: Hands, admin: Admin) -> None:
    hands.put(rows=2)
    counts = "select (select count(*) from ledger.job), (select count(*) from ledger.job_event)"
    with admin.transaction(force_rollback=True):
        admin.execute(f"set local role {ROLES.owner}".encode())
        assert admin.execute(counts).fetchone() == (2, 2)
        for table in ("job", "job_event"):
            admin.execute(f"drop policy {table}_of_any_tenant on ledger.{table}".encode())
        assert admin.execute(counts).fetchone() == (0, 0)


def test_c1_no_role_that_runs_can_become_a_mightier_one(admin: Admin) -> None:
    """A worker can act as the API, which sees less: its handlers' own transactions do."""
    roles = (ROLES.owner, ROLES.worker, ROLES.api, ROLES.readonly)
    asked = "select pg_has_role(%s::name, %s::name, 'member')"
    for one, two in itertools.permutations(roles, 2):
        if one != ROLES.owner and (one, two) != (ROLES.worker, ROLES.api):
            assert admin.execute(asked, [one, two]).fetchone() == (False,), f"{one} is a member of {two}"


@pytest.mark.parametrize("setting", ["", " ", "*", "not an org", "00000000-0000-0000-0000-00000000000"])
def test_c3_a_tenant_that_is_none_sees_nothing(setting: str, hands: Hands, api: Admin) -> None:
    hands.put(rows=2)
    try:
        with api.transaction():
            act_for(api, setting)
            assert api.execute("select from ledger.job").fetchall() == []
            assert setting == ""
    except psycopg.errors.InvalidTextRepresentation:
        assert setting != ""


async def test_c3_a_tenant_does_not_outlive_its_transaction_in_our_pool(hands: Hands, pool: Pool) -> None:
    (key,) = hands.put()
    assert (await service.get_job(pool, ORG, key)).id == key
    async with pool.transaction() as connection:
        assert (await (await connection.execute("select count(*) from ledger.job")).fetchone()) == (0,)
    with pytest.raises(DulyError):
        await service.retry(pool, ORG, key, "anna")
    async with pool.transaction() as connection:
        assert (await (await connection.execute("select count(*) from ledger.job")).fetchone()) == (0,)


async def test_c3_two_tenants_through_one_connection_of_our_pool_never_meet(hands: Hands, pool: Pool) -> None:
    theirs: dict[UUID, set[UUID]] = {ORG: set(hands.put(rows=4)), OTHER_ORG: set(hands.put(rows=4, org=OTHER_ORG))}
    orgs, keys = (ORG, OTHER_ORG, uuid4()), (*theirs[ORG], *theirs[OTHER_ORG])
    for nth in range(120):
        org, key = orgs[nth * 7 % 5 % 3], keys[nth * 11 % 13 % 8]
        found = {job.id for job in (await service.list_jobs(pool, org, most=1 + nth % 9)).items}
        assert found <= theirs.get(org, set())
        is_ours = key in theirs.get(org, set())
        for ask in (service.get_job(pool, org, key), service.list_events(pool, org, key)):
            try:
                assert await ask
                assert is_ours
            except NotFound:
                assert not is_ours


async def test_c5_a_foreign_job_and_none_are_refused_in_the_same_words(hands: Hands, pool: Pool) -> None:
    (foreign,) = hands.put(org=OTHER_ORG)
    before = hands.log(foreign)
    words: dict[UUID, list[str]] = {foreign: [], (absent := uuid4()): []}
    for key, said in words.items():
        for ask in (
            service.get_job(pool, ORG, key),
            service.list_events(pool, ORG, key),
            service.cancel(pool, ORG, key, "anna"),
            service.cancel(pool, ORG, key, "anna", now=True),
            service.retry(pool, ORG, key, "anna"),
        ):
            with pytest.raises(NotFound) as refusal:
                await ask
            said.append(str(refusal.value).replace(str(key), "KEY"))
    assert words[foreign] == words[absent]
    assert hands.log(foreign) == before


async def test_c5_the_dead_of_another_org_are_neither_counted_nor_redriven(hands: Hands, pool: Pool) -> None:
    hands.put(org=OTHER_ORG, max_attempts=1)
    await hands.fail(*await hands.hold())
    assert await service.count_dead(pool, DeadLetters(ORG)) == 0
    assert await service.redrive(pool, DeadLetters(ORG), "anna") == 0
    async with pool.transaction() as connection:  # and not by asking for them under one's own tenant
        await store.act_for(connection, ORG)
        assert await store.count_dead(connection, DeadLetters(OTHER_ORG)) == 0
        assert await store.redrive(connection, DeadLetters(OTHER_ORG), "anna") == []
    assert hands.look("status") == ["dead_letter"]


def test_c5_no_foreign_key_can_be_used_to_ask_whether_a_job_exists(admin: Admin, api: Admin) -> None:
    admin.execute(f"create schema playground authorization {ROLES.api}".encode())
    for table in ("job", "job_event"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            api.execute(f"create table playground.probe (id uuid references ledger.{table} (id))".encode())


def test_c6_every_function_pins_its_path_or_is_one_expression_and_none_is_public(admin: Admin) -> None:
    """Those that run as their owner are in `test_tenants.py`; but a path that somebody else chose serves no other."""
    asked = (
        "select p.proname from pg_proc p join pg_language l on l.oid = p.prolang"
        " where p.pronamespace = 'ledger'::regnamespace and p.prosqlbody is null"
        " and not coalesce(p.proconfig @> array['search_path=pg_catalog, pg_temp'], false) order by 1"
    )
    assert admin.execute(asked).fetchall() == [("job_guard",)]  # which names nothing without its schema
    public = (
        "select p.proname from pg_proc p where p.pronamespace = 'ledger'::regnamespace"
        " and has_function_privilege('public', p.oid, 'execute')"
    )
    assert admin.execute(public).fetchall() == []
