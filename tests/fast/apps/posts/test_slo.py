"""The contract's section 4: release lag P95 < 2 min, counted also while nothing is released; legacy documents never."""

import json

import pytest

from duly.apps.posts.http.metrics import render_metrics
from duly.apps.posts.legacy import import_legacy
from duly.apps.posts.slo import Objective, measure_objectives
from duly.apps.posts.work import PostWork
from duly.db.pool import open_pool
from duly.doctor.checks import load_checks
from duly.doctor.connection import open_connection
from duly.doctor.context import CheckContext
from duly.doctor.finding import Finding, Verdict
from tests.fast.apps.posts.test_work import TUNING, Reader
from tests.fast.verify.test_doctor import settings_for
from tests.support.actions import working
from tests.support.posts.actions import HOURS, Connection, PostActions

PENDING = {"id": "old", "authorId": "bo", "createdAt": "2023-11-01T08:00:00Z", "status": "PENDING", "caption": "old"}


async def get_lag(connection: Connection) -> Objective:
    """Return the objective of the release lag."""
    async with connection.transaction():
        return next(each for each in await measure_objectives(connection) if each.name == "lag")


def run_checks(dsn: str) -> Finding:
    """Return the notes of doctor about posts."""
    with open_connection(dsn) as connection:
        return load_checks()["posts"](CheckContext(connection, settings_for(dsn)))


async def test_release_lag_counts_a_post_that_is_overdue_and_not_released(
    posts: PostActions, worker: Connection
) -> None:
    posts.create("anna")
    posts.advance_clock(9 * HOURS)
    lag = await get_lag(worker)
    assert (lag.is_met, lag.events, lag.bad) == (False, 1, 1)
    assert lag.measured == pytest.approx(3 * HOURS, abs=60)
    assert lag.burn_rates["1h"] == 20.0
    assert b'duly_slo_met{objective="lag"} 0.0' in render_metrics([lag])
    finding = run_checks(posts.admin.info.dsn)
    assert finding.verdict is Verdict.WARN
    assert finding.found.startswith("1 post is overdue by more than 2 minutes and not released, the oldest for 3 h")
    assert "duly worker --only posts" in str(finding.fix)


async def test_release_lag_counts_an_overdue_post_in_processing(posts: PostActions, worker: Connection) -> None:
    posts.create_due("anna")
    posts.advance_clock(100)
    await posts.claim()
    assert ((await get_lag(worker)).events, run_checks(posts.admin.info.dsn).verdict) == (0, Verdict.OK)
    posts.advance_clock(60)
    lag = await get_lag(worker)
    assert (lag.is_met, lag.events, lag.bad) == (False, 1, 1)
    assert run_checks(posts.admin.info.dsn).verdict is Verdict.WARN


async def test_release_lag_does_not_count_a_post_before_its_time(posts: PostActions, worker: Connection) -> None:
    posts.create("anna")
    posts.advance_clock(6 * HOURS + 100)  # due, and within the two minutes
    lag = await get_lag(worker)
    assert (lag.is_met, lag.measured, lag.events) == (True, None, 0)


async def test_release_lag_counts_each_post_once_when_it_is_released_late(
    posts: PostActions, worker: Connection
) -> None:
    posts.create("anna")
    posts.advance_clock(9 * HOURS)
    await posts.release(*await posts.claim())
    lag = await get_lag(worker)
    assert (lag.is_met, lag.events, lag.bad) == (False, 1, 1)
    posts.advance_clock(31 * 24 * HOURS)
    assert (await get_lag(worker)).events == 0


@pytest.mark.parametrize("is_released", [True, False])
async def test_imported_legacy_documents_never_count_and_their_authors_are_not_notified(
    is_released: bool, posts: PostActions, worker: Connection, dsn: str
) -> None:
    posts.create("anna")
    posts.advance_clock(6 * HOURS + 10)
    async with open_pool(posts.admin.info.dsn, size=1) as pool:
        done = await import_legacy(pool, [json.dumps(PENDING).encode()])
    assert (done.added, done.bad) == (1, 0)
    if is_released:
        async with working(dsn, PostWork(Reader(), TUNING)):
            await posts.until(lambda: posts.columns("status") == ["RELEASED", "RELEASED"])
        assert posts.rows("select recipient, kind from duly.outbox") == [("anna", "post.released")]
    lag = await get_lag(worker)
    assert (lag.is_met, lag.events, lag.bad) == (True, int(is_released), 0)
    assert run_checks(posts.admin.info.dsn).verdict is Verdict.OK
    posts.verify()
