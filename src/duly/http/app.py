"""Assembles the HTTP application."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Response, status
from psycopg import AsyncConnection, OperationalError
from pydantic import BaseModel

import duly
from duly.applications import list_applications, load
from duly.db.pool import open_pool, with_keepalive
from duly.executors.images import open_image_decoder
from duly.http.application import HttpPart
from duly.http.auth import Authenticator
from duly.http.body_slots import BodySlots
from duly.http.database_outage import log_database_outages
from duly.http.jobs import router as jobs
from duly.http.problems import add_problem_schema, install_problem_handlers
from duly.http.request_limits import BODIES_AT_ONCE, IMAGES_AT_ONCE
from duly.http.telegram import WebhookBot
from duly.http.telegram import router as telegram
from duly.rate_limit import RateLimiter
from duly.settings import Settings

if TYPE_CHECKING:  # storage needs the extra for applications
    from duly.storage import ObjectStore

READY_SECONDS = 2.0


class HealthResponse(BaseModel):
    """Response of a process that is alive."""

    status: str
    version: str


class ReadinessResponse(BaseModel):
    """Whether requests can be served now, and if not, what is missing."""

    ready: bool
    database: str


class DatabaseProbe:
    """Checks whether the database answers, one check at a time: concurrent callers share its result."""

    def __init__(self, dsn: str) -> None:
        self.dsn = with_keepalive(dsn, "duly-api")
        self.check_task: asyncio.Task[bool] | None = None

    async def is_available(self) -> bool:
        """Return whether the database answers now; results are not cached."""
        if self.check_task is None or self.check_task.done():
            self.check_task = asyncio.create_task(self.check())
        return await asyncio.shield(self.check_task)  # a client that disconnects must not cancel it for the others

    async def check(self) -> bool:
        """Run one query on a new connection."""
        try:
            async with asyncio.timeout(READY_SECONDS), await AsyncConnection.connect(self.dsn) as connection:
                await connection.execute("select 1")
        except (OperationalError, TimeoutError):
            return False
        return True


class ProblemApi(FastAPI):
    """FastAPI with the schema of problem responses."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return add_problem_schema(super().openapi())


def build_app(
    settings: Settings,
    dsn: str,
    objects: "ObjectStore | None" = None,
    *,
    role: str | None = None,
    webhook: WebhookBot | None = None,
) -> FastAPI:
    """Build the application over one database; it starts even while the database is unavailable.

    It has the routes of the engine and of the applications that are switched on. `role` is the database role to switch
    to, if the login of `dsn` is another one; `objects` has the images of applications; `webhook` is the bot whose
    updates Telegram posts here.
    """
    applications = list_applications(settings.apps)
    parts: list[HttpPart] = [load(each.http) for each in applications]

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[Mapping[str, Any], None]:
        async with (
            log_database_outages() as note_connected,
            open_pool(dsn, size=settings.pool_size, role=role, name="duly-api", on_connect=note_connected) as pool,
            AsyncExitStack() as stack,
            webhook.open(pool, objects) if webhook and objects else nullcontext() as telegram_dispatcher,
            open_image_decoder() as image_decoder,
        ):
            state: dict[str, Any] = {
                "settings": settings,
                "pool": pool,
                "authenticator": Authenticator(pool),
                "objects": objects,
                "image_decoder": image_decoder,
                "rate_limiter": RateLimiter(),
                "body_slots": BodySlots(BODIES_AT_ONCE),
                "image_slots": BodySlots(IMAGES_AT_ONCE),
                "calendar_sources": [load(each.calendar_events) for each in applications if each.calendar_events],
                "webhook_secret": webhook.secret if webhook else None,
                "telegram_dispatcher": telegram_dispatcher,
            }
            for part in parts:
                state |= await stack.enter_async_context(part.open_state(pool))
            yield state

    app = ProblemApi(
        title="duly",
        version=duly.__version__,
        description="Durable jobs on PostgreSQL.",
        lifespan=lifespan,
        redirect_slashes=False,  # a wrong path is 404, not a redirect
        docs_url=None,
        redoc_url=None,
    )
    install_problem_handlers(app)
    probe = DatabaseProbe(dsn)

    @app.get("/healthz", operation_id="healthz", summary="Is the process alive?", tags=["health"])
    async def healthz() -> HealthResponse:
        return HealthResponse(status="ok", version=duly.__version__)

    @app.get(
        "/readyz",
        operation_id="readyz",
        summary="Can requests be served?",
        tags=["health"],
        responses={503: {"model": ReadinessResponse}},
    )
    async def readyz(response: Response) -> ReadinessResponse:
        if not await probe.is_available():
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
            return ReadinessResponse(ready=False, database=f"no answer within {READY_SECONDS:.0f} s")
        return ReadinessResponse(ready=True, database="ok")

    _ = healthz, readyz
    for router in (jobs, *(router for part in parts for router in part.routers), telegram):
        app.include_router(router)
    return app
