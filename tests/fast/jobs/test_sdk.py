"""The SDK: the same outcomes on every kind of connection, inside the caller's transaction."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from duly.app import App
from duly.errors import InvalidArgument, KeyReused
from duly.jobs.work import Context
from duly.outcomes import Created, Creation, Existing

Admin = psycopg.Connection[Any]
app = App()


@app.job("thumbnail", queue="images", timeout="2m", max_attempts=3)
async def thumbnail(ctx: Context, image_id: str, size: int = 256) -> dict[str, object]:
    """A handler that records its arguments."""
    return {"image": image_id, "size": size, "attempt": ctx.attempt}


def sqlalchemy_address(admin: Admin) -> str:
    return f"postgresql+psycopg://{admin.info.user}@/{admin.info.dbname}?host={admin.info.host}&port={admin.info.port}"


class EnqueueVariant:
    """Enqueues inside a transaction of one kind of connection, and commits by default."""

    def __init__(self, open_transaction: Callable[[], Any]) -> None:
        self.open_transaction = open_transaction

    async def ask(self, of: Any, fail: bool = False, when: Any = None, **arguments: Any) -> Creation[UUID]:
        async with self.open_transaction() as transaction:
            answer = of.on(transaction, **(when or {})).enqueue(**arguments)
            creation: Creation[UUID] = await answer if hasattr(answer, "__await__") else answer
            if fail:
                raise RuntimeError("changed my mind")
            return creation


def psycopg_sync(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        with psycopg.connect(admin.info.dsn) as connection:
            yield connection

    return EnqueueVariant(open_transaction)


def psycopg_async(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        async with await psycopg.AsyncConnection.connect(admin.info.dsn) as connection:
            yield connection

    return EnqueueVariant(open_transaction)


def sqlalchemy_connection(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_engine(sqlalchemy_address(admin))
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    return EnqueueVariant(open_transaction)


def sqlalchemy_session(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_engine(sqlalchemy_address(admin))
        try:
            with Session(engine) as session, session.begin():
                yield session
        finally:
            engine.dispose()

    return EnqueueVariant(open_transaction)


def sqlalchemy_async_connection(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_async_engine(sqlalchemy_address(admin))
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    return EnqueueVariant(open_transaction)


def sqlalchemy_async_session(admin: Admin) -> EnqueueVariant:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_async_engine(sqlalchemy_address(admin))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()

    return EnqueueVariant(open_transaction)


ASKERS = (
    psycopg_sync,
    psycopg_async,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
)


@pytest.fixture(params=ASKERS, ids=lambda each: each.__name__)
def enqueuer(request: pytest.FixtureRequest, admin: Admin) -> EnqueueVariant:
    """Each kind of connection in turn."""
    return request.param(admin)


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


async def test_database_refusal_is_raised_as_invalid_argument(enqueuer: EnqueueVariant, admin: Admin) -> None:
    with pytest.raises(InvalidArgument):
        await enqueuer.ask(thumbnail, when={"priority": 1000}, image_id="a1")
    assert jobs(admin) == []


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
