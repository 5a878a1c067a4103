"""A worker's row in `duly.workers`: its name, host, work types and slots, and when it was last seen or stopped."""

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
from duly.db.rows import execute
from duly.lease.owner import new_id

SQL = load_queries(__file__, "registry.sql")


@dataclass(frozen=True)
class WorkerIdentity:
    """One worker process; several may share a `worker_id`, but not an `id`."""

    worker_id: str
    work_types: Sequence[str]  # for jobs `ledger`, and `ledger:<queue>/<type>` for each handler
    slots: Mapping[str, int]  # by the name of the work, such as `ledger`
    id: UUID = field(default_factory=new_id)


async def register(connection: AsyncConnection[Any], identity: WorkerIdentity) -> None:
    """Insert the row of a worker that starts."""
    await execute(
        connection,
        SQL.register,
        id=identity.id,
        worker_id=identity.worker_id,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=duly.__version__,
        work_types=list(identity.work_types),
        slots=Jsonb(dict(identity.slots)),
    )


async def note_seen(connection: AsyncConnection[Any], identity: WorkerIdentity) -> None:
    """Note that the worker is alive."""
    await execute(connection, SQL.note_seen, id=identity.id)


async def note_stopping(connection: AsyncConnection[Any], identity: WorkerIdentity) -> None:
    """Note that the worker claims nothing new."""
    await execute(connection, SQL.note_stopping, id=identity.id)


async def note_stopped(connection: AsyncConnection[Any], identity: WorkerIdentity) -> None:
    """Note that the worker has stopped."""
    await execute(connection, SQL.note_stopped, id=identity.id)
