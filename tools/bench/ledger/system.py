"""What a compared system must be able to do; a module `system_<name>.py` per system implements it.

Only the process that needs a system imports it: a worker's memory is its own. Imports nothing of duly, because some
systems run in an environment of their own, see `peers.py`.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, ClassVar

from psycopg.conninfo import conninfo_to_dict

from tools.bench.ledger.start_log import StartLog

DULY = "duly"
NAMES = (DULY, "pgqueuer", "procrastinate", "dbos", "oban")
SLOW = ("procrastinate", "dbos")  # given fewer jobs: a rate is a rate
UNTIMED = -1  # the number of a job whose start is counted and not timed
BATCH = 1000  # jobs in one statement, for every system that can


class Client(ABC):
    """A connection that enqueues jobs; each call is one durable commit."""

    has_own_process: ClassVar[bool] = False  # is its CPU time that of no other client?

    @abstractmethod
    async def enqueue_one(self, number: int) -> None:
        """Enqueue one job."""

    @abstractmethod
    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        """Enqueue a batch of jobs."""

    @abstractmethod
    async def enqueue_in_one_commit(self, jobs: int) -> None:
        """Enqueue any number of jobs, which all become visible with one commit."""

    async def enqueue_singly(self, jobs: int) -> None:
        """Enqueue untimed jobs one after the other."""
        for _ in range(jobs):
            await self.enqueue_one(UNTIMED)

    async def enqueue_in_batches(self, jobs: int) -> None:
        """Enqueue untimed jobs in batches, each a commit."""
        for begin in range(0, jobs, BATCH):
            await self.enqueue_many([UNTIMED] * min(BATCH, jobs - begin))

    async def read_cpu_seconds(self) -> float:
        """Read the CPU time of the process that enqueues."""
        return time.process_time()


class System(ABC):
    """One compared system."""

    name: ClassVar[str]
    setting: ClassVar[str]  # how its worker is set up, for the table
    unfinished: ClassVar[str]  # the statement in queries.sql that tells whether any job is unfinished

    @property
    def python(self) -> str:
        """Return the interpreter that its worker runs on."""
        return sys.executable

    @abstractmethod
    def build(self, dsn: str) -> None:
        """Create its tables in an empty database, whose clones it is measured in."""

    @abstractmethod
    def client(self, dsn: str) -> AbstractAsyncContextManager[Client]:
        """Connect as an application would."""

    @abstractmethod
    def work(self, dsn: str, start_log: StartLog) -> None:
        """Run a worker until SIGTERM."""


def load_system(name: str) -> System:
    """Return the system of this name; one with an environment of its own is controlled from outside."""
    assert name in NAMES, f"{name} is not one of {NAMES}"
    from tools.bench.ledger.peers import PEERS  # here: the environment of a peer does not need it

    if name in PEERS:
        from tools.bench.ledger.remote import RemoteSystem

        return RemoteSystem(PEERS[name])
    return import_system(name)


def import_system(name: str) -> System:
    """Import the system of this name into this process."""
    return import_module(f"tools.bench.ledger.system_{name}").SYSTEM


def asyncpg_arguments(dsn: str) -> dict[str, Any]:
    """Translate an address to arguments of asyncpg, which does not read libpq's own form."""
    parts = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "dbname": "database"}
    return {theirs: str(parts[ours]) for ours, theirs in names.items() if ours in parts}
