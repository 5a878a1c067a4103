"""The HTTP application, assembled."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import Any

from fastapi import FastAPI, Response, status
from psycopg import AsyncConnection, OperationalError
from pydantic import BaseModel

import duly
from duly.apps.ingest.states import DEFAULT_SCHEMA
from duly.apps.scheduler.service import DEFAULT_UNDO_SECONDS
from duly.db.pool import open_pool, with_keepalive
from duly.executors.images import a_child
from duly.http.answer import router as answer
from duly.http.auth import Keyring
from duly.http.calendar import routers as calendar
from duly.http.database_outage import telling_outages
from duly.http.envelope import IntentCounts
from duly.http.ingest import routers as ingest
from duly.http.jobs import router as jobs
from duly.http.metrics import router as metrics
from duly.http.posts import routers as posts
from duly.http.problems import tell_problems, with_problems
from duly.http.request_limits import BODIES_AT_ONCE, IMAGES_AT_ONCE, Room
from duly.http.scheduler import routers as scheduler
from duly.http.telegram import Receives
from duly.http.telegram import router as telegram
from duly.rate_limit import Rate
from duly.storage import Objects

__all__ = ["build_app"]

READY_SECONDS = 2.0


class Health(BaseModel):
    """The process answers."""

    status: str
    version: str


class Readiness(BaseModel):
    """Whether work can be done now, and if not, what is missing."""

    ready: bool
    database: str


class Probe:
    """Asks the database whether it is there, once at a time: whoever comes meanwhile gets the same answer."""

    def __init__(self, dsn: str) -> None:
        self.dsn = with_keepalive(dsn, "duly-api")
        self.asking: asyncio.Task[bool] | None = None

    async def is_answered(self) -> bool:
        """Does the database answer now? Nothing is remembered, so that this is true the moment it is."""
        if self.asking is None or self.asking.done():
            self.asking = asyncio.create_task(self.ask())
        return await asyncio.shield(self.asking)  # who hangs up takes nothing from the others

    async def ask(self) -> bool:
        """One question, on a connection of its own."""
        try:
            async with asyncio.timeout(READY_SECONDS), await AsyncConnection.connect(self.dsn) as connection:
                await connection.execute("select 1")
        except (OperationalError, TimeoutError):
            return False
        return True


class Application(FastAPI):
    """FastAPI, whose document knows our problems."""

    def openapi(self) -> dict[str, Any]:
        """What there is, and every way in which it may answer."""
        return with_problems(super().openapi())


def build_app(
    dsn: str,
    objects: Objects,
    *,
    role: str | None = None,
    pool_size: int = 10,
    ingest_schema: str = DEFAULT_SCHEMA,
    undo_seconds: float = DEFAULT_UNDO_SECONDS,
    hook: Receives | None = None,
) -> FastAPI:
    """The application over one database and one store of images; it starts even while the database does not answer.

    `role` is who it acts as, where the login of `dsn` is somebody else; `hook` is the bot that Telegram reaches here.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[Mapping[str, Any], None]:
        async with (
            telling_outages() as note_connected,
            open_pool(dsn, size=pool_size, role=role, name="duly-api", on_connect=note_connected) as pool,
            IntentCounts(pool).kept() as intents,
            hook.open(pool, objects) if hook else nullcontext() as reception,
            a_child() as children,
        ):
            yield {
                "pool": pool,
                "keyring": Keyring(pool),
                "objects": objects,
                "children": children,
                "intents": intents,
                "rate": Rate(),
                "room": Room(BODIES_AT_ONCE),
                "image_room": Room(IMAGES_AT_ONCE),
                "ingest_schema": ingest_schema,
                "undo_seconds": undo_seconds,
                "hook_secret": hook.secret if hook else None,
                "reception": reception,
            }

    app = Application(
        title="duly",
        version=duly.__version__,
        description="Durable work on PostgreSQL: later, once, by one holder at a time, provable afterwards.",
        lifespan=lifespan,
        redirect_slashes=False,  # an address is right or it is not
        docs_url=None,
        redoc_url=None,
    )
    tell_problems(app)
    probe = Probe(dsn)

    @app.get("/healthz", operation_id="healthz", summary="Is the process alive?", tags=["health"])
    async def healthz() -> Health:
        return Health(status="ok", version=duly.__version__)

    @app.get(
        "/readyz",
        operation_id="readyz",
        summary="Can work be done?",
        tags=["health"],
        responses={503: {"model": Readiness}},
    )
    async def readyz(response: Response) -> Readiness:
        if not await probe.is_answered():
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
            return Readiness(ready=False, database=f"no answer within {READY_SECONDS:.0f} s")
        return Readiness(ready=True, database="ok")

    _ = healthz, readyz
    for router in (jobs, *posts, *ingest, *scheduler, *calendar, answer, telegram, metrics):
        app.include_router(router)
    return app
