"""The HTTP API as tests use it, as the API's own role, and people with keys.

    api_on, api_of, running    a fast test calls the application by ASGI: no socket, no server; any other is `served`
    served_on, served          a real server on a free port, for what only the wire shows

All yield an address for `client_of`.
"""

import asyncio
import itertools
import socket
import tempfile
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import httpx2
import uvicorn
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from duly.accounts import NewKey, service
from duly.db.migrations import Names
from duly.db.pool import Pool, open_pool
from duly.http.app import build_app
from duly.http.server import server_config
from duly.settings import Settings
from duly.storage import Objects, open_objects
from tests.support.tiers import is_fast_test_running

__all__ = [
    "ALL",
    "SECONDS",
    "api_of",
    "api_on",
    "as_owner",
    "ask_until_refused",
    "client_of",
    "key_for",
    "objects_here",
    "running",
    "served",
    "served_on",
]

SECONDS = 60.0
ALL = ("ledger:read", "ledger:write")
Answer = TypeVar("Answer")
NUMBERS = itertools.count(1)


# The application in this process --------------------------------------------------------------------------------------


@contextmanager
def api_on(database: str) -> Generator[str, None, None]:
    """The API over a database, to which it logs in with its own role, as in production."""
    with objects_here() as objects, api_of(database, objects) as address:
        yield address


@contextmanager
def api_of(database: str, objects: Objects) -> Generator[str, None, None]:
    """The same, over a store of images of the test's own."""
    with running(build_app(make_conninfo(database, user=Names().api), objects, pool_size=8)) as address:
        yield address


@contextmanager
def running(app: FastAPI) -> Generator[str, None, None]:
    """An application, called in this process by a fast test, and by its port in any other tier."""
    with (in_process if is_fast_test_running() else served)(app) as address:
        yield address


@contextmanager
def in_process(app: FastAPI) -> Generator[str, None, None]:
    """Start an application on the background loop; the address is known to `client_of` alone."""
    application = Application(app)
    address = f"http://127.0.0.1:{next(NUMBERS)}"
    APPLICATIONS[address] = application
    try:
        on_background_loop(application.start())
        yield address
    finally:
        on_background_loop(application.stop())
        del APPLICATIONS[address]


class Application(httpx2.BaseTransport):
    """A transport whose other end is an ASGI application, with its lifespan."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app
        self.transport = httpx2.ASGITransport(self.call, raise_app_exceptions=False)
        self.started: asyncio.Future[None] | None = None
        self.stopping = asyncio.Event()
        self.state: dict[str, Any] = {}

    async def start(self) -> None:
        """Enter the lifespan, in a task of its own: it must be left where it was entered."""
        started = asyncio.get_running_loop().create_future()
        self.lifetime = asyncio.create_task(self.live(started))
        await asyncio.wait({started, self.lifetime}, return_when=asyncio.FIRST_COMPLETED)
        if self.lifetime.done():
            await self.lifetime

    async def live(self, started: asyncio.Future[None]) -> None:
        """Hold the lifespan open until told to stop."""
        async with self.app.router.lifespan_context(self.app) as state:
            self.state = dict(state or {})
            started.set_result(None)
            await self.stopping.wait()

    async def stop(self) -> None:
        """Leave the lifespan."""
        self.stopping.set()
        await self.lifetime

    async def call(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        """Call the application as a server does, with the state of its lifespan."""
        await self.app({**scope, "state": dict(self.state)}, receive, send)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of a synchronous client."""
        content = request.read()
        return on_background_loop(
            self.answer(httpx2.Request(request.method, request.url, headers=request.headers, content=content))
        )

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request, with its whole body."""
        response = await self.transport.handle_async_request(request)
        return httpx2.Response(response.status_code, headers=response.headers, content=await response.aread())


APPLICATIONS: dict[str, Application] = {}


@cache
def background_loop() -> asyncio.AbstractEventLoop:
    """The event loop on which applications run, in a thread of its own, as long as this process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="applications", daemon=True).start()
    return loop


def on_background_loop(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run something there, and wait for its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, background_loop()).result(SECONDS)


# A real server --------------------------------------------------------------------------------------------------------


def ask_until_refused(ask: Callable[[], httpx2.Response], limit: int = 1000) -> list[httpx2.Response]:
    """Ask again and again until it is too much: on a slow machine that takes more, for the rate goes on meanwhile."""
    answers = [ask()]
    while answers[-1].status_code != 429 and len(answers) < limit:
        answers.append(ask())
    return answers


@contextmanager
def served_on(database: str) -> Generator[str, None, None]:
    """The address of a server of the API over a database, to which it logs in with its own role."""
    with objects_here() as objects:
        app = build_app(make_conninfo(database, user=Names().api), objects, pool_size=8)
        with served(app) as address:
            yield address


@contextmanager
def served(app: FastAPI) -> Generator[str, None, None]:
    """Serve an application in a thread; whoever connects early waits in the socket's queue."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = uvicorn.Server(server_config(app, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="api")
    thread.start()
    host, port = listener.getsockname()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()


# Clients --------------------------------------------------------------------------------------------------------------


@contextmanager
def client_of(address: str, secret: str | None = None) -> Generator[httpx2.Client, None, None]:
    """A client of the API, with a key or without."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    transport = APPLICATIONS.get(address)
    with httpx2.Client(
        base_url=address, headers=headers, timeout=SECONDS, trust_env=False, transport=transport
    ) as client:
        yield client


@contextmanager
def objects_here() -> Generator[Objects, None, None]:
    """A store of images in a directory that goes afterwards."""
    with tempfile.TemporaryDirectory(prefix="duly-objects-") as directory:
        yield open_objects(Settings(DULY_OBJECTS_DIR=directory))  # type: ignore[call-arg]


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
