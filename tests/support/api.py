"""The HTTP door as tests use it: a real server on a free port, as the API's own role, and people with keys."""

import asyncio
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import httpx2
import uvicorn
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from duly.api.app import build_app
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.objects import Objects, open_objects
from duly.people import NewKey, service
from duly.settings import Settings

__all__ = ["ALL", "SECONDS", "api_of", "api_on", "as_owner", "client_of", "key_for", "objects_here", "serving"]

SECONDS = 60.0
ALL = ("ledger:read", "ledger:write")
Answer = TypeVar("Answer")


@contextmanager
def api_on(database: str) -> Generator[str, None, None]:
    """The address of the API over a database, to which it logs in with its own role, as in production."""
    with objects_here() as objects, api_of(database, objects) as address:
        yield address


@contextmanager
def api_of(database: str, objects: Objects) -> Generator[str, None, None]:
    """The same, over a store of images of the test's own."""
    with serving(build_app(make_conninfo(database, user=Names().api), objects, pool_size=8)) as address:
        yield address


@contextmanager
def objects_here() -> Generator[Objects, None, None]:
    """A store of images in a directory that goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="duly-objects-") as directory:
        yield open_objects(Settings(DULY_OBJECTS_DIR=directory))  # type: ignore[call-arg]


@contextmanager
def serving(app: FastAPI) -> Generator[str, None, None]:
    """Serve an application in a thread; whoever connects early waits in the socket's queue."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, ws="none", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
    thread.start()
    host, port = listener.getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()


@contextmanager
def client_of(address: str, secret: str | None = None) -> Generator[httpx2.Client, None, None]:
    """A client of the API, with a key or without."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    with httpx2.Client(base_url=address, headers=headers, timeout=SECONDS, trust_env=False) as client:
        yield client


def key_for(
    database: str,
    org: str | None,
    scopes: Sequence[str] = ALL,
    *,
    uid: str | None = None,
    telegram_id: int | None = None,
    seconds: float | None = None,
) -> NewKey:
    """A key, as the administrator makes it, with the org or the person it belongs to."""

    async def make(pool: Pool) -> NewKey:
        if org:
            await service.create_org(pool, org)
        if uid:
            await service.create_user(pool, uid, telegram_id=telegram_id)
        return await service.create_key(pool, "test", scopes, org=org, uid=uid, lifetime_seconds=seconds)

    return as_owner(database, make)


def as_owner(database: str, question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Ask a service one question, as the administrator does."""

    async def run() -> Answer:
        async with open_pool(database, size=1, role=Names().owner) as pool:
            return await question(pool)

    return asyncio.run(run())
