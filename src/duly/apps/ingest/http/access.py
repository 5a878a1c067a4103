"""The access rules of ingest, and the parameters that its routes share."""

from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import Depends, Path, Query, Request

from duly.accounts.service import require_person
from duly.apps.ingest.service import Ingest
from duly.db.pool import Pool
from duly.errors import Forbidden
from duly.http.auth import PersonAccessRule, require_uid
from duly.http.dependencies import PoolDep
from duly.http.types import PageQuery

READ, WRITE = "ingest:read", "ingest:write"


async def bind_ingest(request: Request, pool: PoolDep) -> Ingest:
    """Return the operations of ingest on this installation's tables."""
    return Ingest(pool, request.state.settings.db_schema)


async def find_telegram_id(pool: Pool, uid: str) -> int:
    """Return the Telegram id under which the days of a person are stored; raises NotFound and Forbidden."""
    person = await require_person(pool, uid)
    if person.telegram_id is None:
        raise Forbidden(
            f"days are stored under a Telegram id, and {uid} has none; set it with: duly people set {uid} "
            "--telegram-id N"
        )
    return person.telegram_id


@PersonAccessRule
async def ingest_reader(request: Request) -> int:
    """Return the Telegram id whose sessions and days are read."""
    return await find_telegram_id(request.state.pool, require_uid(request, READ, "sessions and days"))


@PersonAccessRule
async def ingest_writer(request: Request) -> int:
    """Return the Telegram id for which sessions and images are added; raises RateLimited."""
    uid = require_uid(request, WRITE, "sessions and days")
    request.state.rate_limiter.acquire(uid)
    return await find_telegram_id(request.state.pool, uid)


Reader: TypeAlias = Annotated[int, Depends(ingest_reader)]
Writer: TypeAlias = Annotated[int, Depends(ingest_writer)]
IngestDep: TypeAlias = Annotated[Ingest, Depends(bind_ingest)]
SessionId: TypeAlias = Annotated[UUID, Path(description="The session's id.")]
Pages: TypeAlias = Annotated[PageQuery, Query()]
