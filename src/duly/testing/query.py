"""Query jobs in the caller's own transaction, on any driver, and leave no trace in it."""

from collections.abc import Mapping
from contextlib import nullcontext

import psycopg

from duly.db.drivers import AsyncTransaction, DriverStatement, Rows, SyncTransaction, fetch, fetch_async

TENANT = DriverStatement.from_text("select current_setting('app.current_org_id', true)")
RESTORE = DriverStatement.from_text("select set_config('app.current_org_id', %(tenant)s::text, true)")


def query_sync(transaction: SyncTransaction, statement: DriverStatement, parameters: Mapping[str, str | None]) -> Rows:
    """Run a query that sets its tenant, as `list_candidate_jobs` does, and set the tenant of before."""
    # psycopg opens a transaction by itself; where none was open, none is left open.
    with transaction.transaction() if isinstance(transaction, psycopg.Connection) else nullcontext():
        tenant = fetch(transaction, TENANT, {})[0][0]
        rows = fetch(transaction, statement, parameters)
        fetch(transaction, RESTORE, {"tenant": tenant or ""})
    return rows


async def query_async(
    transaction: AsyncTransaction, statement: DriverStatement, parameters: Mapping[str, str | None]
) -> Rows:
    """Query on an async connection; see `query_sync`."""
    async with transaction.transaction() if isinstance(transaction, psycopg.AsyncConnection) else nullcontext():
        tenant = (await fetch_async(transaction, TENANT, {}))[0][0]
        rows = await fetch_async(transaction, statement, parameters)
        await fetch_async(transaction, RESTORE, {"tenant": tenant or ""})
    return rows
