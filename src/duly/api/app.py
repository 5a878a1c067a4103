"""The HTTP application."""

import asyncio

from fastapi import FastAPI, Response, status
from psycopg import AsyncConnection, OperationalError
from pydantic import BaseModel

import duly

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


def build_app(dsn: str) -> FastAPI:
    """The application over one database; it starts, and says so, even while the database does not answer."""
    app = FastAPI(title="duly", version=duly.__version__, docs_url=None, redoc_url=None)

    @app.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Health:
        return Health(status="ok", version=duly.__version__)

    @app.get("/readyz", summary="Can work be done?", responses={503: {"model": Readiness}})
    async def readyz(response: Response) -> Readiness:
        try:
            async with asyncio.timeout(READY_SECONDS), await AsyncConnection.connect(dsn) as connection:
                await connection.execute("select 1")
        except (OperationalError, TimeoutError):
            response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
            return Readiness(ready=False, database=f"no answer within {READY_SECONDS:.0f} s")
        return Readiness(ready=True, database="ok")

    _ = healthz, readyz
    return app
