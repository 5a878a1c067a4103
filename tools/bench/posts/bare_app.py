"""A minimal application: `python -m tools.bench.posts.bare_app <descriptor> <address>`. One INSERT, one commit.

FastAPI and uvicorn as ours, a pool of as many connections, the same body and the same shape of answer. No keys, no
images, no locks, no second look at what was asked before.
"""

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
import uvicorn
from fastapi import FastAPI
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

from duly.db.queries import load_queries
from duly.settings import load_settings

SQL = load_queries(__file__, "bare_app.sql")


class Request(BaseModel):
    """The request."""

    imagePath: str  # noqa: N815
    caption: str
    requestId: UUID  # noqa: N815


class Data(BaseModel):
    """The created post."""

    postId: UUID  # noqa: N815
    status: str
    releaseTime: datetime  # noqa: N815


class Answer(BaseModel):
    """The response."""

    success: bool
    data: Data


def build(dsn: str) -> FastAPI:
    """Build the application on one database."""
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(dsn, max_size=load_settings().pool_size, open=False)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
        async with pool:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/createPostIntent")
    async def create_intent(body: Request) -> Answer:
        given = {"image_path": body.imagePath, "caption": body.caption, "request_id": body.requestId}
        async with pool.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(SQL.create_intent, given)
            made = await cursor.fetchone()
        assert made
        return Answer(success=True, data=Data(postId=made["id"], status="PENDING", releaseTime=made["release_time"]))

    _ = create_intent
    return app


def make_table(dsn: str) -> None:
    """Create the table unless it exists."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SQL.make_table)


def main() -> None:
    """Serve on an inherited socket until SIGTERM."""
    descriptor, dsn = sys.argv[1:]
    make_table(dsn)
    config = uvicorn.Config(build(dsn), log_config=None, log_level="warning")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main()
