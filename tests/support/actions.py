"""What tests of every package do: query the database, move its clock, wait for it, verify its invariants."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, ClassVar

import psycopg
from psycopg import AsyncConnection, sql

from duly.lease.work import Work
from duly.settings import Settings
from duly.testing import move_clock
from duly.testing.clock import read_clock
from duly.verify import check
from duly.worker.runner import Worker

Admin = psycopg.Connection[Any]
Connection = AsyncConnection[Any]
WAIT_SECONDS = 60.0
POLL = "select pg_sleep(0.02)"


class Actions:
    """A test's connections as administrator and as worker, and what it does with them.

    A subclass names its schemas, its table with an order, and the machine that writes its rows' transitions.
    """

    schemas: ClassVar[tuple[str, ...]]
    table: ClassVar[str]
    order: ClassVar[str] = "created_at, id"
    machine: ClassVar[str]
    summary: ClassVar[tuple[str, ...]] = ("status",)  # the columns that are printed when waiting was in vain

    def __init__(self, admin: Admin, worker: Connection) -> None:
        self.admin = admin
        self.worker = worker

    # Queries ----------------------------------------------------------------------------------------------------------

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return every row of a statement."""
        return self.admin.execute(statement.encode(), parameters).fetchall()

    def values(self, statement: str, *parameters: object) -> list[Any]:
        """Return the only column of a statement."""
        return [value for (value,) in self.rows(statement, *parameters)]

    def one(self, statement: str, *parameters: object) -> Any:
        """Return the only column of the only row of a statement."""
        (value,) = self.values(statement, *parameters)
        return value

    def columns(self, *columns: str) -> list[Any]:
        """Return these columns of every row of the table, in its order; of one column, its values."""
        statement = f"select {', '.join(columns)} from {self.table} order by {self.order}"
        return self.values(statement) if len(columns) == 1 else self.rows(statement)

    def count(self, table: str) -> int:
        """Count the rows of a table, named with its schema."""
        counted = self.admin.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(*table.split("."))))
        ((rows,),) = counted.fetchall()
        return rows

    def path(self, key: object) -> list[str]:
        """Return every status that a row has had, the first one first."""
        statement = "select next_status from duly.transition where machine = %s and key = %s order by seq"
        return self.values(statement, self.machine, str(key))

    def verify(self) -> None:
        """Assert that no invariant is violated."""
        assert check(self.admin, ("duly", *self.schemas)) == []

    # Time -------------------------------------------------------------------------------------------------------------

    def now(self) -> datetime:
        """Return the database's time."""
        return read_clock(self.admin)

    def advance_clock(self, seconds: float = 0, **more: float) -> None:
        """Move the database's clock by seconds, minutes=, hours= and days=."""
        move_clock(self.admin, timedelta(seconds=seconds, **more).total_seconds())

    def set_clock(self, at: str | datetime) -> None:
        """Make it this time in the database."""
        wanted = datetime.fromisoformat(at) if isinstance(at, str) else at
        self.advance_clock((wanted - self.now()).total_seconds())

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.columns(*self.summary)
            self.admin.execute(POLL)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Poll until the condition holds, in a thread, while a worker in this process goes on."""
        await asyncio.to_thread(self.wait_until, condition)

    # People -----------------------------------------------------------------------------------------------------------

    def add_user(self, uid: str = "anna", **columns: object) -> int:
        """Make a user, unless there is one with this uid; return the id."""
        names = ", ".join(["uid", *columns])
        given = ", ".join(["%s"] * (len(columns) + 1))
        insert = f"insert into duly.person ({names}) values ({given}) on conflict do nothing"
        self.admin.execute(insert.encode(), [uid, *columns.values()])
        return self.one("select id from duly.person where uid = %s", uid)


@asynccontextmanager
async def working(dsn: str, *works: Work, stop_seconds: float = 5, **settings: Any) -> AsyncGenerator[Worker, None]:
    """Run a worker in this process, and stop it at the end."""
    worker = Worker(works, Settings(DULY_STOP_SECONDS=stop_seconds, **settings), dsn=dsn)  # type: ignore[call-arg]
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.request_stop()
        await running
