"""The context of a handler: fenced transactions, completing the job in one, progress."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.pool import open_pool
from duly.errors import InvalidArgument, Misconfigured
from duly.jobs.context import Context, JobDatabase
from duly.jobs.work import build_context
from tests.support.jobs.actions import ORG, JobActions

Admin = psycopg.Connection[Any]


@pytest.fixture
def worker_dsn(admin: Admin) -> str:
    """The worker's address to a database with a table that the API's role may write."""
    admin.execute("create schema shop")
    admin.execute("create table shop.book (job uuid, who text, org text)")
    admin.execute("grant usage on schema shop to duly_api")
    admin.execute("grant insert on shop.book to duly_api")
    return make_conninfo(admin.info.dsn, user="duly_worker")


@asynccontextmanager
async def claimed_context(jobs: JobActions, dsn: str) -> AsyncGenerator[Context, None]:
    """The context of a claimed job."""
    async with open_pool(dsn, idle=0) as pool:
        (lease,) = await jobs.claim()
        yield build_context(lease, database=JobDatabase(lease, pool, "duly_api", asyncio.get_running_loop()))


async def test_job_is_not_swept_while_its_handlers_transaction_is_open(jobs: JobActions, worker_dsn: str) -> None:
    jobs.enqueue()
    async with claimed_context(jobs, worker_dsn) as ctx, ctx.transaction() as tx:
        jobs.advance_clock(61)
        assert await jobs.sweep() == 0
        await ctx.complete(tx, 1)
    assert jobs.columns("status", "result") == [("succeeded", 1)]


async def test_complete_requires_the_connection_of_the_open_context_transaction(
    jobs: JobActions, worker_dsn: str
) -> None:
    jobs.enqueue()
    async with claimed_context(jobs, worker_dsn) as ctx:
        with pytest.raises(InvalidArgument, match=r"ctx\.transaction"):
            await ctx.complete(jobs.worker, 1)
        with pytest.raises(InvalidArgument, match="async with"), ctx.transaction():
            pytest.fail("it was let in")


@pytest.mark.parametrize(("stage", "percent"), [(None, 101), (None, -1), ("", None), ("x" * 201, 1)])
def test_progress_out_of_bounds_is_refused(stage: str | None, percent: int | None) -> None:
    context = Context(UUID(int=1), ORG, "work", "default", 0, 5)
    with pytest.raises(InvalidArgument):
        context.progress(stage, percent)


async def progress_in_transaction(ctx: Context) -> None:
    """Record progress inside a transaction, as an `async def` handler may try."""
    async with ctx.transaction():
        await ctx.progress("inside")


async def progress_in_transaction_of_a_thread(ctx: Context) -> None:
    """The same as a plain function."""

    def handler() -> None:
        with ctx.transaction():
            ctx.progress("inside")

    await asyncio.to_thread(handler)


@pytest.mark.parametrize("handler", [progress_in_transaction, progress_in_transaction_of_a_thread])
async def test_progress_inside_a_transaction_is_refused_because_it_would_wait_for_its_lock(
    jobs: JobActions, worker_dsn: str, handler: Callable[[Context], Awaitable[None]]
) -> None:
    jobs.enqueue()
    async with claimed_context(jobs, worker_dsn) as ctx, asyncio.timeout(20):
        with pytest.raises(InvalidArgument, match=r"progress\(\) before or after ctx\.transaction\(\)"):
            await handler(ctx)
        await ctx.progress("after")
    assert jobs.columns("stage") == ["after"]


async def test_context_of_a_failure_hook_names_why_it_has_no_database(jobs: JobActions) -> None:
    jobs.enqueue()
    (lease,) = await jobs.claim()
    with pytest.raises(Misconfigured, match="failure hook"):
        build_context(lease).progress("too late")
