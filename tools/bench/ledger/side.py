"""What a contender must be able to do; each has a module of its own that fills in this form.

Only the process that needs a side imports it: a worker's memory is its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, ClassVar

from psycopg.conninfo import conninfo_to_dict

from tools.bench.ledger.board import Board

OURS = "duly"
NAMES = (OURS, "pgqueuer", "procrastinate")
UNCOUNTED = -1  # the number of a job whose start nobody asks for
BATCH = 1000  # jobs in one statement, for everybody


class Client(ABC):
    """A connection that asks for jobs; each call is one durable commit."""

    @abstractmethod
    async def one(self, number: int) -> None:
        """Ask for one job."""

    @abstractmethod
    async def many(self, numbers: Sequence[int]) -> None:
        """Ask for a batch of jobs."""

    @abstractmethod
    async def all_at_once(self, jobs: int) -> None:
        """Ask for any number of jobs, all of which become visible with one commit."""


class Side(ABC):
    """One contender."""

    name: ClassVar[str]
    setting: ClassVar[str]  # how its worker is set up, for the table
    unfinished: ClassVar[str]  # the statement in queries.sql that tells whether anything is left

    @abstractmethod
    def build(self, dsn: str) -> None:
        """Make its tables in an empty database, whose clones are what it works in."""

    @abstractmethod
    def client(self, dsn: str) -> AbstractAsyncContextManager[Client]:
        """Connect as an application would."""

    @abstractmethod
    def work(self, dsn: str, board: Board) -> None:
        """Be a worker process, until a SIGTERM."""


def side_of(name: str) -> Side:
    """The contender of this name."""
    assert name in NAMES, f"{name} is not one of {NAMES}"
    return import_module(f"tools.bench.ledger.side_{name}").SIDE


def address_of(dsn: str) -> dict[str, Any]:
    """An address in the words that asyncpg takes, which does not read libpq's own form."""
    parts = conninfo_to_dict(dsn)
    names = {"host": "host", "port": "port", "user": "user", "dbname": "database"}
    return {theirs: str(parts[ours]) for ours, theirs in names.items() if ours in parts}
