"""The HTTP API for tests, with the role of the API, and API keys.

    api_on, api_of, running    fast tests call the application by ASGI, without a socket; other tiers use a real server
    served_on, served          a real server on a free port, for what only a real connection shows

All yield a base URL for `client_for`.
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
from duly.storage import ObjectStore, open_object_store
from tests.support.tiers import is_fast_test_running

SECONDS = 60.0
ALL = ("ledger:read", "ledger:write")
Answer = TypeVar("Answer")
NUMBERS = itertools.count(1)


# The application in this process --------------------------------------------------------------------------------------


@contextmanager
def api_on(database: str) -> Generator[str, None, None]:
    """Yield the API over a database, with the role of the API as in production."""
    with temporary_object_store() as objects, api_of(database, objects) as address:
        yield address


@contextmanager
def api_of(database: str, objects: ObjectStore) -> Generator[str, None, None]:
    """Yield the API over a database and an object store of the test."""
    with running(build_app(Settings(), make_conninfo(database, user=Names().api), objects)) as address:
        yield address


@contextmanager
def running(app: FastAPI) -> Generator[str, None, None]:
    """Run an application, in this process for a fast test, with a real server in other tiers."""
    with (in_process if is_fast_test_running() else served)(app) as address:
        yield address


@contextmanager
def in_process(app: FastAPI) -> Generator[str, None, None]:
    """Start an application on the background loop; only `client_for` knows its base URL."""
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
        """Enter the lifespan in a task of its own, which must also leave it."""
        started = asyncio.get_running_loop().create_future()
        self.lifetime = asyncio.create_task(self.live(started))
        await asyncio.wait({started, self.lifetime}, return_when=asyncio.FIRST_COMPLETED)
        if self.lifetime.done():
            await self.lifetime

    async def live(self, started: asyncio.Future[None]) -> None:
        """Keep the lifespan open until the stop."""
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
        """Handle a request of a synchronous client."""
        content = request.read()
        return on_background_loop(
            self.answer(httpx2.Request(request.method, request.url, headers=request.headers, content=content))
        )

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        """Handle a request, and read the full response."""
        response = await self.transport.handle_async_request(request)
        return httpx2.Response(response.status_code, headers=response.headers, content=await response.aread())


APPLICATIONS: dict[str, Application] = {}


@cache
def background_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all applications, in a thread that ends with this process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="applications", daemon=True).start()
    return loop


def on_background_loop(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine on the background loop, and wait for its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, background_loop()).result(SECONDS)


# A real server --------------------------------------------------------------------------------------------------------


def request_until_rate_limited(send_request: Callable[[], httpx2.Response], limit: int = 1000) -> list[httpx2.Response]:
    """Send requests until one gets 429; a slow machine needs more, because the bucket refills meanwhile."""
    answers = [send_request()]
    while answers[-1].status_code != 429 and len(answers) < limit:
        answers.append(send_request())
    return answers


@contextmanager
def served_on(database: str) -> Generator[str, None, None]:
    """Yield the base URL of a real server of the API, with the role of the API."""
    with temporary_object_store() as objects:
        app = build_app(Settings(), make_conninfo(database, user=Names().api), objects)
        with served(app) as address:
            yield address


@contextmanager
def served(app: FastAPI) -> Generator[str, None, None]:
    """Serve an application in a thread; early connections wait in the backlog of the socket."""
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
def client_for(address: str, secret: str | None = None) -> Generator[httpx2.Client, None, None]:
    """Yield a client of the API, with an API key or without."""
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    transport = APPLICATIONS.get(address)
    with httpx2.Client(
        base_url=address, headers=headers, timeout=SECONDS, trust_env=False, transport=transport
    ) as client:
        yield client


@contextmanager
def temporary_object_store() -> Generator[ObjectStore, None, None]:
    """Yield an object store in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="duly-objects-") as directory:
        yield open_object_store(Settings(DULY_OBJECTS_DIR=directory))  # type: ignore[call-arg]


def key_for(
    database: str,
    org: str | None,
    scopes: Sequence[str] = ALL,
    *,
    uid: str | None = None,
    telegram_id: int | None = None,
    seconds: float | None = None,
) -> NewKey:
    """Create an API key, and the org or person it belongs to."""

    async def make(pool: Pool) -> NewKey:
        if org:
            await service.create_org(pool, org)
        if uid:
            await service.create_person(pool, uid, telegram_id=telegram_id)
        return await service.create_key(pool, "test", scopes, org=org, uid=uid, lifetime_seconds=seconds)

    return as_owner(database, make)


def as_owner(database: str, question: Callable[[Pool], Awaitable[Answer]]) -> Answer:
    """Call a service with the role of the owner."""

    async def run() -> Answer:
        async with open_pool(database, size=1, role=Names().owner) as pool:
            return await question(pool)

    return asyncio.run(run())
