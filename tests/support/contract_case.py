"""What the contract's own tests have in common: a database, and actions on it."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from duly.apps.ingest.build_work import states_from_settings
from duly.apps.ingest.reading import FixtureReader
from duly.apps.ingest.work import CaptureWork
from duly.db.pool import connect
from duly.launcher import ROOT
from duly.settings import load_settings
from tests.support.contract_database import database_for_tests
from tests.support.ingest.actions import CaptureActions
from tests.support.processes import plain_environment

MAIN = ROOT / "main.py"
A_PERSON = "select coalesce(max(user_id), 0) + 1 from HOME.capture_session"
ADD = (  # as the contract has the columns: none has a default
    "insert into HOME.capture_session (id, user_id, state, created_at)"
    " values (gen_random_uuid(), %s, PENDING, clock_timestamp()) returning id"
)
HAS_GUARD = """
select count(*) > 0 from pg_catalog.pg_proc as f inner join pg_catalog.pg_namespace as n on n.oid = f.pronamespace
where n.nspname = %s and f.proname = 'capture_session_guard'
"""


class ContractCase(unittest.IsolatedAsyncioTestCase):
    """A test with a database, a person of its own in it, and a fixture that it may edit."""

    resources: ClassVar[ExitStack]
    dsn: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        """Open the database, once for all tests of a class."""
        cls.resources = ExitStack()
        cls.addClassCleanup(cls.resources.close)
        cls.dsn = cls.resources.enter_context(database_for_tests())

    async def asyncSetUp(self) -> None:
        """Connect, and make a person and a fixture."""
        asyncio.get_running_loop().set_debug(False)  # or it complains that we wait for processes
        self.enter = await self.enterAsyncContext(AsyncExitStack())
        self.admin: psycopg.Connection[Any] = self.enterContext(psycopg.connect(self.dsn, autocommit=True))
        self.settings = load_settings()
        # On a backend's own tables a worker is its login, and no role of duly's is there.
        self.is_dulys: bool = self.admin.execute(HAS_GUARD, [self.settings.db_schema]).fetchall()[0][0]
        self.captures = CaptureActions(self.admin, await self.connection(), await self.connection())
        self.user: int = self.one(A_PERSON)
        self.fixture = Path(self.enterContext(tempfile.TemporaryDirectory())) / "day.json"

    async def connection(self) -> AsyncConnection[Any]:
        """A connection with the rights of a worker."""
        connection = await self.enter.enter_async_context(await connect(self.dsn))
        if self.is_dulys:
            await connection.execute(f"set role {self.settings.worker_role}".encode())
        return connection

    async def work(self) -> CaptureWork:
        """A worker's work on these tables, which is refused on tables without the lease migration."""
        settings = self.settings
        work = self.captures.work(
            FixtureReader(self.fixture), schema=settings.db_schema, states=states_from_settings(settings)
        )
        await work.prepare(self.captures.worker)
        return work

    def qualified(self, statement: str) -> str:
        """A statement with the schema and the state that a session waits in."""
        return statement.replace("HOME", self.settings.db_schema).replace("PENDING", f"'{self.settings.pending_state}'")

    def rows(self, statement: str, *values: object) -> list[Any]:
        """What a statement answers here."""
        return self.captures.rows(self.qualified(statement), *values)

    def one(self, statement: str, *values: object) -> Any:
        """Return the one value of a statement."""
        return self.captures.one(self.qualified(statement), *values)

    def write(self, **day: object) -> None:
        """Make this the fixture."""
        self.fixture.write_text(json.dumps(day))

    def add_session(self) -> UUID:
        """A session of our person that waits."""
        return self.one(ADD, self.user)

    def main(self, **environment: str) -> subprocess.Popen[str]:
        """Start `main.py`."""
        given = {"DATABASE_URL": self.dsn, "FIXTURE_PAYLOAD_PATH": str(self.fixture), **environment}
        return subprocess.Popen(
            [sys.executable, str(MAIN)],
            env=plain_environment(DULY_LOG_LEVEL="error", **given),
            cwd=os.fspath(self.fixture.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run_once(self, **environment: str) -> UUID:
        """Add a session and let `main.py` take it, which must end well; the session."""
        key = self.add_session()
        self.end(self.main(**environment))
        return key

    def end(self, process: subprocess.Popen[str]) -> str:
        """Wait for a `main.py` that must succeed, and return its output."""
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        return output

    def session(self, key: UUID) -> Mapping[str, Any]:
        """A session as it is."""
        return self.one("select to_jsonb(s) from HOME.capture_session as s where id = %s", key)

    def versions(self) -> list[tuple[str, int, UUID]]:
        """Day, number and session of every version of our person."""
        return self.rows(
            "select schedule_date::text, version, session_id from HOME.schedule_version"
            " where user_id = %s order by created_at, version",
            self.user,
        )

    def pointers(self) -> dict[str, int]:
        """The current version of every day of our person."""
        query = "select schedule_date::text, current_version from HOME.day_schedule where user_id = %s"
        return dict(self.rows(query, self.user))


async def in_many(several: int, act: Any) -> list[Any]:
    """The same from many sides at once."""
    return await asyncio.gather(*(act(nth) for nth in range(several)))
