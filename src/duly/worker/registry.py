"""A worker's own row in `duly.workers`: who it is, what it works on, when it was last seen, whether it said goodbye."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

import duly
from duly.db.queries import load_queries
from duly.db.rows import change
from duly.lease.owner import new_id

__all__ = ["Identity", "note_seen", "note_stopped", "note_stopping", "register"]

SQL = load_queries(__file__, "registry.sql")


@dataclass(frozen=True)
class Identity:
    """One worker process; its name may be another's too, its id never is."""

    worker_id: str
    kinds: Sequence[str]
    slots: Mapping[str, int]  # of each kind of work
    id: UUID = field(default_factory=new_id)


async def register(connection: AsyncConnection[Any], identity: Identity) -> None:
    """Say that we are there."""
    await change(
        connection,
        SQL.register,
        id=identity.id,
        worker_id=identity.worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=duly.__version__,
        kinds=list(identity.kinds),
        slots=Jsonb(dict(identity.slots)),
    )


async def note_seen(connection: AsyncConnection[Any], identity: Identity) -> None:
    """Say that we still are."""
    await change(connection, SQL.note_seen, id=identity.id)


async def note_stopping(connection: AsyncConnection[Any], identity: Identity) -> None:
    """Say that we take nothing new any more."""
    await change(connection, SQL.note_stopping, id=identity.id)


async def note_stopped(connection: AsyncConnection[Any], identity: Identity) -> None:
    """Say goodbye."""
    await change(connection, SQL.note_stopped, id=identity.id)
