"""Every kind of connection on which jobs are enqueued, with its real library: each opens a transaction of its own."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from importlib import import_module
from typing import Any
from uuid import UUID

import psycopg
import psycopg2
import psycopg2.extras
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from duly.outcomes import Creation

asyncpg: Any = import_module("asyncpg")  # libraries without types
django: Any = import_module("django")
django_conf: Any = import_module("django.conf")
django_db: Any = import_module("django.db")

__all__ = ["DRIVERS", "EnqueueVariant", "alchemy_url", "django_database"]

Opens = Callable[[str], Any]


def alchemy_url(dsn: str, driver: str) -> str:
    """Build the address of a database for SQLAlchemy over this driver."""
    at = conninfo_to_dict(dsn)
    password = f":{at['password']}" if at.get("password") else ""
    return f"postgresql+{driver}://{at['user']}{password}@/{at['dbname']}?host={at['host']}&port={at.get('port', 5432)}"


# Sync -----------------------------------------------------------------------------------------------------------------


@contextmanager
def psycopg_connection(dsn: str) -> Generator[Any, None, None]:
    connect: Any = psycopg.connect
    with connect(dsn, row_factory=dict_row) as connection:
        yield connection


@contextmanager
def psycopg_cursor(dsn: str) -> Generator[Any, None, None]:
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:
        yield cursor


@contextmanager
def psycopg2_connection(dsn: str) -> Generator[Any, None, None]:
    connect: Any = psycopg2.connect
    with closing(connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)) as connection, connection:
        yield connection


@contextmanager
def psycopg2_cursor(dsn: str) -> Generator[Any, None, None]:
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        yield cursor


def sqlalchemy_connection(driver: str) -> Opens:
    @contextmanager
    def open_transaction(dsn: str) -> Generator[Any, None, None]:
        engine = create_engine(alchemy_url(dsn, driver))
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    return open_transaction


def sqlalchemy_session(driver: str) -> Opens:
    @contextmanager
    def open_transaction(dsn: str) -> Generator[Any, None, None]:
        engine = create_engine(alchemy_url(dsn, driver))
        try:
            with Session(engine) as session, session.begin():
                yield session
        finally:
            engine.dispose()

    return open_transaction


@contextmanager
def sqlalchemy_scoped_session(dsn: str) -> Generator[Any, None, None]:
    engine = create_engine(alchemy_url(dsn, "psycopg"))
    registry = scoped_session(sessionmaker(engine))
    try:
        with registry.begin():
            yield registry
    finally:
        registry.remove()
        engine.dispose()


@contextmanager
def django_database(dsn: str) -> Generator[None, None, None]:
    """Let Django's default connection, of this thread, lead to a database."""
    at = conninfo_to_dict(dsn)
    names = {"NAME": at["dbname"], "USER": at["user"], "HOST": at["host"], "PORT": str(at.get("port", ""))}
    default = {"ENGINE": "django.db.backends.postgresql", "PASSWORD": at.get("password", ""), **names}
    if not django_conf.settings.configured:
        django_conf.settings.configure(DATABASES={"default": default}, USE_TZ=True)
        django.setup()
    django_db.connections["default"].close()
    django_db.connections["default"].settings_dict.update(default)
    try:
        yield
    finally:
        django_db.connections["default"].close()


@contextmanager
def django_atomic(dsn: str) -> Generator[Any, None, None]:
    with django_database(dsn), django_db.transaction.atomic():
        yield django_db.connection


@contextmanager
def django_wrapper(dsn: str) -> Generator[Any, None, None]:
    with django_database(dsn), django_db.transaction.atomic():
        yield django_db.connections["default"]


# Async ----------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def psycopg_async_connection(dsn: str) -> AsyncGenerator[Any, None]:
    connect: Any = psycopg.AsyncConnection.connect
    async with await connect(dsn, row_factory=dict_row) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async_cursor(dsn: str) -> AsyncGenerator[Any, None]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.cursor() as cursor:
        yield cursor


def asyncpg_address(dsn: str) -> dict[str, Any]:
    """Return what asyncpg calls the parts of an address."""
    at = conninfo_to_dict(dsn)
    return {
        "host": at["host"],
        "port": int(at.get("port") or 5432),
        "user": at["user"],
        "database": at["dbname"],
        "password": at.get("password"),
    }


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncGenerator[Any, None]:
    connection = await asyncpg.connect(**asyncpg_address(dsn))
    try:
        # As many projects do; a payload that went as jsonb would be encoded twice.
        await connection.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(dsn: str) -> AsyncGenerator[Any, None]:
    async with (
        asyncpg.create_pool(**asyncpg_address(dsn), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


def sqlalchemy_async_connection(driver: str) -> Opens:
    @asynccontextmanager
    async def open_transaction(dsn: str) -> AsyncGenerator[Any, None]:
        engine = create_async_engine(alchemy_url(dsn, driver))
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    return open_transaction


def sqlalchemy_async_session(driver: str) -> Opens:
    @asynccontextmanager
    async def open_transaction(dsn: str) -> AsyncGenerator[Any, None]:
        engine = create_async_engine(alchemy_url(dsn, driver))
        try:
            async with AsyncSession(engine) as session, session.begin():
                yield session
        finally:
            await engine.dispose()

    return open_transaction


SYNC: Mapping[str, Opens] = {
    "psycopg connection": psycopg_connection,
    "psycopg cursor": psycopg_cursor,
    "psycopg2 connection": psycopg2_connection,
    "psycopg2 cursor": psycopg2_cursor,
    "SQLAlchemy connection over psycopg": sqlalchemy_connection("psycopg"),
    "SQLAlchemy session over psycopg": sqlalchemy_session("psycopg"),
    "SQLAlchemy scoped session": sqlalchemy_scoped_session,
    "SQLAlchemy connection over psycopg2": sqlalchemy_connection("psycopg2"),
    "SQLAlchemy session over psycopg2": sqlalchemy_session("psycopg2"),
    "Django's connection": django_atomic,
    "Django's connections[...]": django_wrapper,
}
ASYNC: Mapping[str, Opens] = {
    "psycopg async connection": psycopg_async_connection,
    "psycopg async cursor": psycopg_async_cursor,
    "asyncpg connection": asyncpg_connection,
    "asyncpg connection of a pool": asyncpg_pool,
    "SQLAlchemy async connection over psycopg": sqlalchemy_async_connection("psycopg"),
    "SQLAlchemy async session over psycopg": sqlalchemy_async_session("psycopg"),
    "SQLAlchemy async connection over asyncpg": sqlalchemy_async_connection("asyncpg"),
    "SQLAlchemy async session over asyncpg": sqlalchemy_async_session("asyncpg"),
}
DRIVERS = (*SYNC, *ASYNC)


class EnqueueVariant:
    """Enqueues inside a transaction of one kind of connection, and commits by default."""

    def __init__(self, name: str, dsn: str) -> None:
        self.name = name
        self.dsn = dsn

    async def call(self, act: Callable[[Any], Any], *, fail: bool = False) -> Any:
        """Call a function with a transaction and await what it returns, or, for a sync library, in a thread."""
        if self.name in SYNC:
            return await asyncio.to_thread(self.call_sync, act, fail)
        async with ASYNC[self.name](self.dsn) as opened:
            returned = await act(opened)
            if fail:
                raise RuntimeError("changed my mind")
            return returned

    def call_sync(self, act: Callable[[Any], Any], fail: bool) -> Any:
        """Call it on a sync connection."""
        with SYNC[self.name](self.dsn) as opened:
            returned = act(opened)
            if fail:
                raise RuntimeError("changed my mind")
            return returned

    async def ask(self, of: Any, fail: bool = False, when: Any = None, **arguments: Any) -> Creation[UUID]:
        """Enqueue one job of a type."""
        return await self.call(lambda tx: of.on(tx, **(when or {})).enqueue(**arguments), fail=fail)
