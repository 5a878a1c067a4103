"""DBOS Transact over its own client: every job is a workflow, whose status and checkpoints stay in the database."""

# Installed in an environment of its own, see peers.py.
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUntypedFunctionDecorator=false

import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient
from psycopg.conninfo import conninfo_to_dict

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import UNTIMED, Client, System

QUEUE, NOOP, VERSION = "default", "noop", "bench"
CONCURRENCY = 500  # stated in peers.py too, as is:
POLL_SECONDS = 0.1
OPTIONS: Any = {"queue_name": QUEUE, "workflow_name": NOOP, "app_version": VERSION}


class DbosClient(Client):
    """Its client, which is synchronous inside; a batch is a transaction, for it has no call for several."""

    def __init__(self, dsn: str) -> None:
        self.engine = sqlalchemy.create_engine(sqlalchemy_url(dsn))
        self.client = DBOSClient(system_database_engine=self.engine)

    async def enqueue_one(self, number: int) -> None:
        self.client.enqueue(OPTIONS, number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        with self.engine.begin() as connection:
            for number in numbers:
                self.client.enqueue_in_transaction(connection, OPTIONS, number)

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        await self.enqueue_many([UNTIMED] * jobs)


class Dbos(System):
    """DBOS."""

    name = "dbos"  # its other attributes stand in peers.py

    def build(self, dsn: str) -> None:
        self.launch(dsn)
        DBOS.destroy()

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        client = DbosClient(dsn)
        try:
            yield client
        finally:
            client.client.destroy()
            client.engine.dispose()

    def launch(self, dsn: str) -> None:
        """Start it on this database with one queue."""
        url = sqlalchemy_url(dsn).render_as_string(hide_password=False)
        DBOS(config={
            "name": "bench", "system_database_url": url, "application_version": VERSION, "log_level": "ERROR",
            "run_admin_server": False, "sys_db_pool_size": 20,
        })  # fmt: skip
        DBOS.launch()
        DBOS.register_queue(QUEUE, worker_concurrency=CONCURRENCY, polling_interval_sec=POLL_SECONDS)

    def work(self, dsn: str, start_log: StartLog) -> None:
        @DBOS.workflow(name=NOOP)
        def noop(number: int) -> None:  # pyright: ignore[reportUnusedFunction]
            start_log.record(number)

        os.environ["DBOS__VMID"] = str(os.getpid())  # two workers are two executors
        self.launch(dsn)
        signal.sigwait({signal.SIGTERM})
        sys.stdout.flush()
        os._exit(0)  # its threads would wait for the next poll


def sqlalchemy_url(dsn: str) -> sqlalchemy.URL:
    """Translate libpq's form of an address to SQLAlchemy's."""
    parts = conninfo_to_dict(dsn)
    query = {name: str(parts[name]) for name in ("host", "port") if name in parts}
    return sqlalchemy.URL.create(
        "postgresql+psycopg", username=str(parts["user"]), database=str(parts["dbname"]), query=query
    )


SYSTEM = Dbos()
