"""Lists and what they do not tell: more of C1 to C7 of the security checklist, where `test_tenants.py` leaves off.

There: rights, forced row security, the tenant of a transaction and of a pooled one, keys, functions that run as their
owner, the index of every list. Here: the same lists when their plans are made for good, page by page; what sums, joins,
statistics and refusals give away; and our own pool, service and roles.
"""

from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import sql

from duly.db.pool import Pool
from duly.errors import NotFound
from duly.jobs import repository, service
from duly.jobs.model import JobStatus
from tests.fast.jobs.test_lists import pool
from tests.fast.jobs.test_machine import BESIDE, PATHS_TO_STATUS
from tests.fast.jobs.test_tenants import act_for
from tests.full.jobs.test_majors import PARAMETER
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, JobActions

__all__ = ["pool"]

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
    "limit": "bigint",
}


def fill(admin: Admin, status: str) -> None:
    """Many queued jobs of two orgs, and a few of ours with this status, the oldest."""
    insert = "insert into ledger.job (org_id, type) select %s, 'work' from generate_series(1, %s)"
    admin.execute(insert, [ORG, FEW])
    for each in PATHS_TO_STATUS[status]:
        admin.execute(f"update ledger.job set status = '{each}', {BESIDE[each]}".encode())
    for org in (ORG, OTHER_ORG):
        admin.execute(insert, [org, ROWS])
    admin.execute("vacuum analyze ledger.job")


def prepare_list(api: Admin) -> list[str]:
    """Prepare the list query as a long-lived connection does; return the names of its parameters."""
    text = repository.SQL.statements["list_jobs"]
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    numbered = PARAMETER.sub(lambda place: f"${names.index(place[1]) + 1}", text)
    api.execute(f"prepare asked ({', '.join(TYPES[each] for each in names)}) as {numbered}".encode())
    return names


def page(api: Admin, names: list[str], explain: str = "", **given: Any) -> list[Any]:
    """Return a page of twenty, or its plan."""
    default = {"org": ORG, "before_at": repository.FIRST_PAGE[0], "before_id": repository.FIRST_PAGE[1], "limit": 20}
    values = sql.SQL(", ").join(sql.Literal((default | given).get(name)) for name in names)
    return api.execute(sql.SQL("{} execute asked ({})").format(sql.SQL(explain), values)).fetchall()  # type: ignore[arg-type]


def blocks(api: Admin, names: list[str], **given: Any) -> int:
    """Return how many disk pages a page of the list reads."""
    ((document,),) = page(api, names, "explain (analyze, buffers, format json)", **given)
    plan = document[0]["Plan"]
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.breaks_invariants
@pytest.mark.parametrize("status", [status.value for status in JobStatus if status is not JobStatus.QUEUED])
def test_c7_a_prepared_list_by_status_keeps_reading_few_blocks(status: str, admin: Admin, api: Admin) -> None:
    fill(admin, status)
    with api.transaction():
        act_for(api, ORG)
        names = prepare_list(api)
        for _ in range(8):  # until the planner has made up its mind
            assert len(page(api, names, status=status)) == 20
        assert blocks(api, names, status=status) < PAGE_BLOCKS
        assert blocks(api, names, status=status, type="work", queue="default") < PAGE_BLOCKS


def test_c7_every_page_of_a_list_reads_as_few_blocks_as_the_first(admin: Admin, api: Admin) -> None:
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


async def test_c3_tenants_that_share_a_pooled_connection_never_see_each_others_jobs(
    jobs: JobActions, pool: Pool
) -> None:
    jobs_by_org: dict[UUID, set[UUID]] = {
        ORG: set(jobs.enqueue(rows=4)),
        OTHER_ORG: set(jobs.enqueue(rows=4, org=OTHER_ORG)),
    }
    orgs, keys = (ORG, OTHER_ORG, uuid4()), (*jobs_by_org[ORG], *jobs_by_org[OTHER_ORG])
    for nth in range(120):
        org, key = orgs[nth * 7 % 5 % 3], keys[nth * 11 % 13 % 8]
        found = {job.id for job in (await service.list_jobs(pool, org, limit=1 + nth % 9)).items}
        assert found <= jobs_by_org.get(org, set())
        is_ours = key in jobs_by_org.get(org, set())
        for call in (service.get_job(pool, org, key), service.list_events(pool, org, key)):
            try:
                assert await call
                assert is_ours
            except NotFound:
                assert not is_ours
