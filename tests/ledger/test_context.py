"""What a handler may do about its job while it runs: transactions that hold it, completing it there, progress."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.pool import open_pool
from duly.errors import InvalidArgument, LeaseLost
from duly.kernel.work import Pace
from duly.ledger.context import Context, Desk
from duly.ledger.work import JobWork, context_of
from duly.settings import Settings
from duly.worker.runtime import Worker
from tests.ledger.hands import ORG, OTHER_ORG, Hands
from tests.support.shop import app

Admin = psycopg.Connection[Any]
PACE = Pace(poll_seconds=0.1, sweep_seconds=1)


@pytest.fixture
def worker_dsn(admin: Admin) -> str:
    """Where workers connect, as themselves; with a book that the API may write."""
    admin.execute("create schema shop")
    admin.execute("create table shop.book (job uuid, who text, org text)")
    admin.execute("grant usage on schema shop to duly_api")
    admin.execute("grant insert on shop.book to duly_api")
    return make_conninfo(admin.info.dsn, user="duly_worker")


async def work_once(dsn: str, times: int = 1) -> None:
    """So many cycles of a worker."""
    for _ in range(times):
        await Worker([JobWork(app.handlers(), PACE)], Settings(), dsn=dsn).run(once=True)


def book(admin: Admin) -> list[Any]:
    """What the shop's book says."""
    return admin.execute("select job, who, org from shop.book").fetchall()


# Transactions ---------------------------------------------------------------------------------------------------------

BOTH = pytest.mark.parametrize("kind", ["bill", "bill_plainly"])


@BOTH
async def test_what_it_writes_and_the_end_of_the_job_are_one_transaction(
    hands: Hands, worker_dsn: str, kind: str
) -> None:
    (job,) = hands.put(kind)
    await work_once(worker_dsn)
    assert hands.look("status", "starts", "result") == [("succeeded", 1, {"then": ""})]
    assert book(hands.admin) == [(job, "duly_api", str(ORG))]
    assert hands.path(job) == ["queued", "running", "succeeded"]
    hands.verify()


@BOTH
async def test_what_fails_inside_leaves_nothing_and_is_tried_again(hands: Hands, worker_dsn: str, kind: str) -> None:
    hands.put(kind, payload={"then": "inside"}, max_attempts=2, backoff_policy="none")
    await work_once(worker_dsn, times=2)
    assert hands.look("status", "starts", "last_error_message") == [("dead_letter", 2, "Oops: inside")]
    assert book(hands.admin) == []


@BOTH
async def test_what_fails_after_the_commit_changes_nothing_more(hands: Hands, worker_dsn: str, kind: str) -> None:
    hands.put(kind, payload={"then": "after"})
    await work_once(worker_dsn)
    assert hands.look("status", "result", "last_error_code") == [("succeeded", {"then": "after"}, None)]
    assert len(book(hands.admin)) == 1


@BOTH
async def test_a_completion_that_was_rolled_back_does_not_count(hands: Hands, worker_dsn: str, kind: str) -> None:
    hands.put(kind, payload={"then": "savepoint"})
    await work_once(worker_dsn)
    assert hands.look("status", "result") == [("succeeded", "returned")]


@BOTH
async def test_completing_twice_is_completing_once(hands: Hands, worker_dsn: str, kind: str) -> None:
    (job,) = hands.put(kind, payload={"then": "twice"})
    await work_once(worker_dsn)
    assert hands.look("status", "result") == [("succeeded", {"then": "twice"})]
    assert hands.path(job) == ["queued", "running", "succeeded"]


async def test_a_job_asked_for_inside_belongs_to_the_same_org_and_commit(hands: Hands, worker_dsn: str) -> None:
    hands.put("order", payload={"name": "anna"})
    await work_once(worker_dsn)
    assert sorted(hands.look("type", "status", "org_id")) == [("greet", "queued", ORG), ("order", "succeeded", ORG)]


@asynccontextmanager
async def held(hands: Hands, dsn: str) -> AsyncGenerator[Context, None]:
    """The context of a job that we hold."""
    async with open_pool(dsn, idle=0) as pool:
        (lease,) = await hands.hold()
        yield context_of(lease, desk=Desk(lease, pool, "duly_api", asyncio.get_running_loop()))


async def test_another_org_is_out_of_reach_inside(hands: Hands, worker_dsn: str) -> None:
    hands.put(org=OTHER_ORG)
    hands.put()
    hands.admin.execute("update ledger.job set priority = 9 where org_id = %s", [ORG])
    async with held(hands, worker_dsn) as ctx:
        assert ctx.org_id == ORG
        async with ctx.transaction() as tx:
            assert await (await tx.execute("select org_id from ledger.job")).fetchall() == [(ORG,)]
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                async with tx.transaction():
                    await tx.execute("select ledger.enqueue(%s, 'work')", [OTHER_ORG])
        async with open_pool(worker_dsn, idle=0) as pool, pool.transaction() as tx:
            left = await (
                await tx.execute("select current_user, current_setting('app.current_org_id', true)")
            ).fetchone()
            assert left in (("duly_worker", ""), ("duly_worker", None))


@pytest.mark.parametrize("lose", ["cancel", "lapse"])
async def test_a_holder_that_lost_its_job_writes_nothing(hands: Hands, worker_dsn: str, lose: str) -> None:
    (job,) = hands.put()
    async with held(hands, worker_dsn) as ctx:
        if lose == "cancel":
            hands.admin.execute(
                "update ledger.job set status = 'canceled', lease_owner = null, lease_expires_at = null"
            )
        else:
            hands.pass_time(61)
            assert await hands.sweep() == 1
        with pytest.raises(LeaseLost, match=str(job)):
            async with ctx.transaction():
                pytest.fail("it was let in")
        with pytest.raises(LeaseLost):
            await ctx.progress("on")


async def test_nobody_can_take_the_job_while_the_transaction_is_open(hands: Hands, worker_dsn: str) -> None:
    hands.put()
    async with held(hands, worker_dsn) as ctx, ctx.transaction() as tx:
        hands.pass_time(61)
        assert await hands.sweep() == 0
        await ctx.complete(tx, 1)
    assert hands.look("status", "result") == [("succeeded", 1)]


async def test_completing_needs_the_connection_of_the_open_transaction(hands: Hands, worker_dsn: str) -> None:
    hands.put()
    async with held(hands, worker_dsn) as ctx:
        with pytest.raises(InvalidArgument, match=r"ctx\.transaction"):
            await ctx.complete(hands.worker, 1)
        with pytest.raises(InvalidArgument, match="async with"), ctx.transaction():
            pytest.fail("it was let in")


async def test_an_isolated_handler_is_told_that_it_has_no_database(hands: Hands, worker_dsn: str) -> None:
    hands.put("alone", payload={"how": "transaction"}, max_attempts=1)
    await work_once(worker_dsn)
    ((code, message),) = hands.look("last_error_code", "last_error_message")
    assert code == "MISCONFIGURED"
    assert "isolate" in message


# Progress -------------------------------------------------------------------------------------------------------------


async def test_progress_is_on_the_row_and_not_too_often_in_the_log(hands: Hands, worker_dsn: str) -> None:
    (job,) = hands.put("climb", payload={"steps": 50})
    await work_once(worker_dsn)
    assert hands.look("status", "stage", "progress") == [("succeeded", "climbing", 100)]
    said = [detail for before, after, detail in hands.log(job) if before == after == "running"]
    assert said[0] == {"stage": "climbing", "progress": 2}
    assert said[-1] == {"stage": "climbing", "progress": 100}
    assert 2 <= len(said) < 25
    hands.verify()


async def test_a_plain_function_says_it_without_await(hands: Hands, worker_dsn: str) -> None:
    (job,) = hands.put("climb_plainly")
    await work_once(worker_dsn)
    said = [detail for before, after, detail in hands.log(job) if before == after]
    assert said == [{"stage": "packing", "progress": 10}, {"stage": "walking", "progress": 10}]


@pytest.mark.parametrize(("stage", "percent"), [(None, 101), (None, -1), ("", None), ("x" * 201, 1)])
def test_progress_out_of_bounds_is_refused(stage: str | None, percent: int | None) -> None:
    context = Context(UUID(int=1), ORG, "work", "default", 0, 5)
    with pytest.raises(InvalidArgument):
        context.progress(stage, percent)
