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


class Asker:
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


def psycopg_sync(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        with psycopg.connect(admin.info.dsn) as connection:
            yield connection

    return Asker(open_transaction)


def psycopg_async(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        async with await psycopg.AsyncConnection.connect(admin.info.dsn) as connection:
            yield connection

    return Asker(open_transaction)


def sqlalchemy_connection(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_engine(sqlalchemy_address(admin))
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    return Asker(open_transaction)


def sqlalchemy_session(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_engine(sqlalchemy_address(admin))
        try:
            with Session(engine) as session, session.begin():
                yield session
        finally:
            engine.dispose()

    return Asker(open_transaction)


def sqlalchemy_async_connection(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_async_engine(sqlalchemy_address(admin))
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    return Asker(open_transaction)


def sqlalchemy_async_session(admin: Admin) -> Asker:
    @asynccontextmanager
    async def open_transaction() -> AsyncGenerator[Any, None]:
        engine = create_async_engine(sqlalchemy_address(admin))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()

    return Asker(open_transaction)


ASKERS = (
    psycopg_sync,
    psycopg_async,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
)


@pytest.fixture(params=ASKERS, ids=lambda each: each.__name__)
def asker(request: pytest.FixtureRequest, admin: Admin) -> Asker:
    """Each kind of connection in turn."""
    return request.param(admin)


def jobs(admin: Admin) -> list[tuple[Any, ...]]:
    return admin.execute("select type, queue, payload, status::text, priority from ledger.job order by id").fetchall()


async def test_a_job_exists_once_its_transaction_is_committed(asker: Asker, admin: Admin) -> None:
    made = await asker.ask(thumbnail, when={"priority": 7}, image_id="a1", size=64)
    assert isinstance(made, Created)
    assert jobs(admin) == [("thumbnail", "images", {"image_id": "a1", "size": 64}, "queued", 7)]


async def test_a_job_whose_transaction_fails_never_existed(asker: Asker, admin: Admin) -> None:
    with pytest.raises(RuntimeError, match="changed my mind"):
        await asker.ask(thumbnail, fail=True, image_id="a1")
    assert jobs(admin) == []


async def test_the_same_key_is_the_same_job_and_another_body_is_refused(asker: Asker, admin: Admin) -> None:
    first = await asker.ask(thumbnail, when={"key": "order:42"}, image_id="a1")
    again = await asker.ask(thumbnail, when={"key": "order:42"}, image_id="a1")
    assert isinstance(first, Created)
    assert again == Existing(first.row)
    with pytest.raises(KeyReused, match="order:42"):
        await asker.ask(thumbnail, when={"key": "order:42"}, image_id="b2")
    assert len(jobs(admin)) == 1


async def test_what_the_database_refuses_is_refused_in_words(asker: Asker, admin: Admin) -> None:
    with pytest.raises(InvalidArgument):
        await asker.ask(thumbnail, when={"priority": 1000}, image_id="a1")
    assert jobs(admin) == []


def test_arguments_that_the_handler_cannot_take_are_refused(admin: Admin) -> None:
    on: Any = thumbnail.on(admin)
    with pytest.raises(InvalidArgument, match="cannot be called with these arguments"):
        on.enqueue(image="a1")
    with pytest.raises(InvalidArgument):
        on.enqueue(image_id=object())


def test_a_type_is_declared_once() -> None:
    with pytest.raises(InvalidArgument, match="declared twice"):
        app.job("thumbnail")(thumbnail.function)


def several(_ctx: Context, *_rest: int) -> None: ...


def whatever(_ctx: Context, **_rest: int) -> None: ...


def by_place(_ctx: Context, _a: int, /) -> None: ...


@pytest.mark.parametrize("function", [several, whatever, by_place])
def test_a_handler_whose_arguments_have_no_names_is_refused(function: Callable[..., None]) -> None:
    with pytest.raises(InvalidArgument, match="needs one"):
        App().job("nameless")(function)


async def test_a_declared_function_can_still_be_called() -> None:
    context = Context(UUID(int=1), UUID(int=2), "thumbnail", "images", 4, 5)
    assert await thumbnail(context, "a1") == {"image": "a1", "size": 256, "attempt": 4}
