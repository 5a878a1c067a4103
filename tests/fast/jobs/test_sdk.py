"""The SDK: the same outcomes on every kind of connection, inside the caller's transaction."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql

from duly.app import App
from duly.errors import InvalidArgument, KeyReused
from duly.jobs.work import Context
from duly.outcomes import Created, Existing
from tests.support.drivers import DRIVERS, EnqueueVariant

Admin = psycopg.Connection[Any]
OTHER = UUID(int=11)
app = App()


@app.job("thumbnail", queue="images", timeout="2m", max_attempts=3)
async def thumbnail(ctx: Context, image_id: str, size: int = 256) -> dict[str, object]:
    """A handler that records its arguments."""
    return {"image": image_id, "size": size, "attempt": ctx.attempt}


@pytest.fixture(params=DRIVERS)
def enqueuer(request: pytest.FixtureRequest, admin: Admin) -> EnqueueVariant:
    """Each kind of connection in turn."""
    return EnqueueVariant(request.param, admin.info.dsn)


def jobs(admin: Admin) -> list[tuple[Any, ...]]:
    return admin.execute("select type, queue, payload, status::text, priority from ledger.job order by id").fetchall()


async def test_job_exists_after_its_transaction_commits(enqueuer: EnqueueVariant, admin: Admin) -> None:
    made = await enqueuer.ask(thumbnail, when={"priority": 7}, image_id="a1", size=64)
    assert isinstance(made, Created)
    assert jobs(admin) == [("thumbnail", "images", {"image_id": "a1", "size": 64}, "queued", 7)]


async def test_job_does_not_exist_after_its_transaction_rolls_back(enqueuer: EnqueueVariant, admin: Admin) -> None:
    with pytest.raises(RuntimeError, match="changed my mind"):
        await enqueuer.ask(thumbnail, fail=True, image_id="a1")
    assert jobs(admin) == []


async def test_same_key_returns_the_same_job_and_another_request_is_refused(
    enqueuer: EnqueueVariant, admin: Admin
) -> None:
    first = await enqueuer.ask(thumbnail, when={"key": "order:42"}, image_id="a1")
    again = await enqueuer.ask(thumbnail, when={"key": "order:42"}, image_id="a1")
    assert isinstance(first, Created)
    assert again == Existing(first.row)
    with pytest.raises(KeyReused, match="order:42"):
        await enqueuer.ask(thumbnail, when={"key": "order:42"}, image_id="b2")
    assert len(jobs(admin)) == 1


async def test_a_transaction_of_another_org_is_refused(enqueuer: EnqueueVariant, admin: Admin) -> None:
    with admin.transaction():
        admin.execute("select set_config('app.current_org_id', %s, true)", [str(OTHER)])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            admin.execute("select ledger.enqueue(%s, 'thumbnail')", [app.org])
    admin.execute(
        sql.SQL("alter role current_user in database {} set app.current_org_id = {}").format(
            sql.Identifier(admin.info.dbname), sql.Literal(str(OTHER))
        )
    )
    with pytest.raises(Exception, match="acts for another org"):
        await enqueuer.ask(thumbnail, image_id="a1")
    await enqueuer.ask(thumbnail, when={"org": OTHER}, image_id="a1")
    assert admin.execute("select org_id from ledger.job").fetchall() == [(OTHER,)]


async def test_workers_are_woken_once_when_the_transaction_commits(enqueuer: EnqueueVariant, admin: Admin) -> None:
    with psycopg.connect(admin.info.dsn, autocommit=True) as listener:
        listener.execute("listen duly_ledger")
        await enqueuer.ask(thumbnail, image_id="a1")
        admin.execute("notify duly_ledger, 'end'")
        seen = [each.payload for each in listener.notifies(timeout=30, stop_after=2)]
    assert seen == ["", "end"]


async def test_every_option_reaches_the_job(enqueuer: EnqueueVariant, admin: Admin) -> None:
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)
    when = {"org": OTHER, "key": "k%s $1", "run_at": noon, "priority": -7, "requested_by": "anna"}
    await enqueuer.ask(thumbnail, when=when, image_id="100 % of ä \\ ' \"", size=1)
    await enqueuer.ask(thumbnail, when={"delay": "1h"}, image_id="a1")
    rows = admin.execute(
        "select org_id, idempotency_key, run_at, priority, requested_by, payload, queue, max_attempts, timeout_seconds,"
        " backoff_policy::text, backoff_base_seconds, backoff_cap_seconds, retain_for::text from ledger.job order by id"
    ).fetchall()
    declared = ("images", 3, 120.0, "exp", 15.0, 600.0, "720:00:00")
    payload = {"image_id": "100 % of ä \\ ' \"", "size": 1}
    assert rows[0] == (OTHER, "k%s $1", noon, -7, "anna", payload, *declared)
    assert rows[1] == (app.org, None, rows[1][2], 0, None, {"image_id": "a1"}, *declared)
    assert admin.execute("select bool_and(run_at = created_at + '1 h') from ledger.job where priority = 0").fetchone()


async def test_many_jobs_are_enqueued_at_once_and_answered_in_order(enqueuer: EnqueueVariant, admin: Admin) -> None:
    noon = datetime(2030, 1, 31, 12, tzinfo=UTC)

    declared: Any = thumbnail

    def enqueue(tx: Any) -> Any:
        return declared.on(tx, priority=3).enqueue_many(
            ({"image_id": each} for each in ("a", "b", "a", "c")), keys=["k1", None, "k1", "k3"], run_ats=[noon] * 4
        )

    first, second, repeated, third = await enqueuer.call(enqueue)
    assert [type(each) for each in (first, second, repeated, third)] == [Created, Created, Existing, Created]
    assert first.job_id == repeated.job_id
    rows = admin.execute(
        "select id, payload ->> 'image_id', idempotency_key, run_at, priority from ledger.job"
    ).fetchall()
    assert set(rows) == {
        (first.job_id, "a", "k1", noon, 3),
        (second.job_id, "b", None, noon, 3),
        (third.job_id, "c", "k3", noon, 3),
    }
    with pytest.raises(RuntimeError, match="changed my mind"):
        await enqueuer.call(lambda tx: declared.on(tx).enqueue_many([{"image_id": "d"}]), fail=True)
    with pytest.raises(KeyReused, match="k1"):
        await enqueuer.call(lambda tx: declared.on(tx).enqueue_many([{"image_id": "z"}], keys=["k1"]))
    assert len(jobs(admin)) == 3


async def test_a_type_of_another_program_is_enqueued_by_its_name(enqueuer: EnqueueVariant, admin: Admin) -> None:
    mine: Any = app
    other: Any = App()
    made = await enqueuer.call(lambda tx: other.enqueue("report", {"year": 2030}, tx, key="r"))
    again = await enqueuer.call(lambda tx: other.enqueue("report", {"year": 2030}, tx, key="r"))
    known = await enqueuer.call(lambda tx: mine.enqueue("thumbnail", {"image_id": "a1"}, tx))
    assert again == Existing(made.job_id)
    assert known.job_id
    assert [row[:3] for row in jobs(admin)] == [
        ("report", "default", {"year": 2030}),
        ("thumbnail", "images", {"image_id": "a1"}),
    ]
    with pytest.raises(InvalidArgument, match="cannot be called with these arguments"):
        await enqueuer.call(lambda tx: mine.enqueue("thumbnail", {"image": "a1"}, tx))
    with pytest.raises(InvalidArgument, match="job type 'a b': must have 1 to 100 characters"):
        await enqueuer.call(lambda tx: other.enqueue("a b", {}, tx))


async def test_database_refusal_is_raised_as_invalid_argument(enqueuer: EnqueueVariant, admin: Admin) -> None:
    with pytest.raises(InvalidArgument, match="key: must have 1 to 255 characters"):
        await enqueuer.ask(thumbnail, when={"key": ""}, image_id="a1")
    assert jobs(admin) == []


def test_more_jobs_than_one_call_takes_are_enqueued_in_several(admin: Admin) -> None:
    creations = thumbnail.on(admin).enqueue_many({"image_id": str(number)} for number in range(10_001))
    assert len({each.job_id for each in creations}) == 10_001
    in_order = admin.execute(
        "select array_agg((payload ->> 'image_id')::int order by nth) from ledger.job"
        " join unnest(%s::uuid[]) with ordinality as given (id, nth) using (id)",
        [[each.job_id for each in creations]],
    ).fetchone()
    assert in_order == (list(range(10_001)),)


@pytest.mark.parametrize(
    ("options", "lists", "answer"),
    [
        ({}, {"keys": ["a"]}, "fewer keys than payloads"),
        ({}, {"keys": ["a", "b", "c"]}, "more keys than payloads"),
        ({}, {"run_ats": []}, "fewer run_ats than payloads"),
        ({}, {"keys": [1, 2]}, r"keys=\[..., 1\] of thumbnail.enqueue_many\(\): must be a string"),
        ({"key": "k"}, {}, r"key= of thumbnail.on\(\) is of one job; pass enqueue_many\(payloads, keys=\[...\]\)"),
        ({"run_at": datetime(2030, 1, 1, tzinfo=UTC)}, {}, "run_at= of thumbnail.on"),
    ],
)
def test_lists_that_do_not_match_the_payloads_are_refused(admin: Admin, options: Any, lists: Any, answer: str) -> None:
    with pytest.raises(InvalidArgument, match=answer):
        thumbnail.on(admin, **options).enqueue_many([{"image_id": "a"}, {"image_id": "b"}], **lists)
    assert jobs(admin) == []


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"key": 7}, r"key=7 of thumbnail.on\(\): must be a string"),
        ({"org": "acme"}, "org='acme' of thumbnail.on.*must be a UUID"),
        ({"priority": 101}, "priority=101 of thumbnail.on.*between -100 and 100"),
        ({"run_at": "noon"}, "run_at='noon' of thumbnail.on.*must be a datetime"),
        ({"delay": "soon"}, "delay='soon' of thumbnail.on"),
    ],
)
def test_an_invalid_option_is_refused_with_its_value(admin: Admin, options: Any, answer: str) -> None:
    with pytest.raises(InvalidArgument, match=answer):
        thumbnail.on(admin, **options)


def test_enqueue_refuses_arguments_that_the_handler_does_not_accept(admin: Admin) -> None:
    on: Any = thumbnail.on(admin)
    with pytest.raises(InvalidArgument, match="cannot be called with these arguments"):
        on.enqueue(image="a1")
    with pytest.raises(InvalidArgument):
        on.enqueue(image_id=object())


def test_job_type_can_be_declared_only_once() -> None:
    with pytest.raises(InvalidArgument, match="declared twice"):
        app.job("thumbnail")(thumbnail.function)


def several(_ctx: Context, *_rest: int) -> None: ...


def whatever(_ctx: Context, **_rest: int) -> None: ...


def positional_only(_ctx: Context, _a: int, /) -> None: ...


@pytest.mark.parametrize("function", [several, whatever, positional_only])
def test_handler_with_unnamed_parameters_is_refused(function: Callable[..., None]) -> None:
    with pytest.raises(InvalidArgument, match="needs one"):
        App().job("nameless")(function)


async def test_a_declared_function_can_still_be_called() -> None:
    context = Context(UUID(int=1), UUID(int=2), "thumbnail", "images", 4, 5)
    assert await thumbnail(context, "a1") == {"image": "a1", "size": 256, "attempt": 4}
