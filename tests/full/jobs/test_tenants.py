"""Tenant isolation: C1 to C7 of the security checklist, on the ledger's tables."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.jobs import repository
from tests.fast.jobs.test_tenants import ROLES, act_for
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, JobActions


@pytest.mark.parametrize("status", ["queued", "running", "succeeded", "failed", "canceled", "dead_letter"])
async def test_c7_listing_by_status_uses_its_index_under_row_security(
    status: str, jobs: JobActions, admin: Admin
) -> None:
    admin.execute("insert into ledger.job (org_id, type) select %s, 'work' from generate_series(1, 5000)", [OTHER_ORG])
    admin.execute("insert into ledger.job (org_id, type) select %s, 'work' from generate_series(1, 5000)", [ORG])
    admin.execute("vacuum analyze ledger.job")
    statement = repository.SQL.list_jobs.as_string(admin)
    parameters: dict[str, Any] = {
        "org": ORG, "status": status, "type": None, "queue": None, "finished_from": None, "finished_before": None,
        "before_at": repository.FIRST_PAGE[0], "before_id": repository.FIRST_PAGE[1], "limit": 20,
    }  # fmt: skip
    with psycopg.connect(make_conninfo(admin.info.dsn, user=ROLES.api)) as api:
        act_for(api, ORG)
        lines = api.execute(("explain " + statement).encode(), parameters).fetchall()
    plan = "\n".join(line for (line,) in lines)
    assert f"idx_job__org_id_created_at_id_{status}" in plan, plan
    assert "Seq Scan" not in plan
