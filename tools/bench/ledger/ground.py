"""The server all sides stand on, with their databases."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import psycopg
from psycopg import IsolationLevel

from duly.db.admin import create_database
from duly.db.queries import load_queries
from tools.bench.ground import Server, open_server
from tools.bench.ledger.side import OURS, Side, side_of

SQL = load_queries(__file__)


@dataclass
class Ground(Server):
    """The server of a run, with a database for every side."""

    standing: dict[str, str] = field(default_factory=dict[str, str])

    def fresh_database(self, side: Side) -> AbstractContextManager[str]:
        """The address of a database with a side's empty tables, gone afterwards."""
        return self.fresh(side.name, side.build)

    def standing_database(self, content: str, rows: int) -> str:
        """The address of a database of ours with many rows in it, made the first time it is asked for."""
        if content not in self.standing:
            dsn = create_database(self.dsn, f"bench_standing_{content}")
            side_of(OURS).build(dsn)
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(SQL.silence_triggers)
                connection.execute(SQL.add_backlog if content == "backlog" else SQL.add_finished, {"jobs": rows})
                connection.execute(SQL.add_events)
            self.standing[content] = dsn
        with psycopg.connect(self.standing[content], autocommit=True) as connection:
            connection.execute(SQL.vacuum)
        return self.standing[content]

    @contextmanager
    def old_snapshot(self, dsn: str) -> Generator[None, None, None]:
        """Somebody's transaction that has seen the database as it is now, and goes on for as long as this."""
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            connection.execute(SQL.hold_snapshot)
            yield


@contextmanager
def open_ground() -> Generator[Ground, None, None]:
    """A server with durable settings, for as long as this."""
    with open_server(Ground) as ground:
        yield ground


@contextmanager
def asking_what_is_left(dsn: str, side: Side) -> Generator[Callable[[], bool], None, None]:
    """A question: is anything of this side unfinished?"""
    statement = getattr(SQL, side.unfinished)
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield lambda: connection.execute(statement).fetchone() == (True,)
