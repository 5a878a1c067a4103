"""One function per statement of `queries.sql`."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection

from duly.db.queries import load_queries

SQL = load_queries(__file__)
AnyConnection = Connection[Any]


# Making ---------------------------------------------------------------------------------------------------------------


def disable_triggers(connection: AnyConnection) -> None:
    """Write without guards, events and foreign keys from now on."""
    connection.execute(SQL.disable_triggers)


def enable_triggers(connection: AnyConnection) -> None:
    """Check and log everything again from now on."""
    connection.execute(SQL.enable_triggers)


def add_people(connection: AnyConnection, people: int) -> None:
    """Create people."""
    connection.execute(SQL.add_people, {"people": people})


def add_schedules(connection: AnyConnection, schedules: int, people: int) -> None:
    """Create schedules that are not due."""
    connection.execute(SQL.add_schedules, {"schedules": schedules, "people": people})


def add_runs(connection: AnyConnection, runs: int) -> None:
    """Create past runs."""
    connection.execute(SQL.add_runs, {"runs": runs})


def create_partitions(connection: AnyConnection) -> None:
    """Create the partitions of past runs."""
    connection.execute(SQL.create_partitions)


def make_due(connection: AnyConnection, due: int) -> int:
    """Make schedules due for planning; return how many."""
    return connection.execute(SQL.make_due, {"due": due}).rowcount


def make_remindable(connection: AnyConnection) -> int:
    """Make planned runs due; return how many."""
    return connection.execute(SQL.make_remindable).rowcount


def add_messages(connection: AnyConnection, messages: int) -> None:
    """Create messages, each to another person."""
    connection.execute(SQL.add_messages, {"messages": messages})


def vacuum(connection: AnyConnection) -> None:
    """Vacuum and analyze, as autovacuum would have."""
    connection.execute(SQL.vacuum)


# Looking --------------------------------------------------------------------------------------------------------------


def find_due(connection: AnyConnection) -> int:
    """Run the contract's own query; return how many rows it found."""
    return len(connection.execute(SQL.find_due).fetchall())


def explain_due(connection: AnyConnection) -> Any:
    """Explain the contract's own query."""
    row = connection.execute(SQL.explain_due).fetchone()
    assert row
    return row[0][0]


# A bare program -------------------------------------------------------------------------------------------------------


def bare_claim(connection: AnyConnection, limit: int) -> Sequence[UUID]:
    """Claim messages; return their ids."""
    cursor = connection.execute(SQL.bare_claim, {"limit": limit})
    place = [column.name for column in cursor.description or ()].index("id")
    return [row[place] for row in cursor.fetchall()]


def bare_settle(connection: AnyConnection, keys: Sequence[UUID]) -> None:
    """Settle messages as sent."""
    connection.execute(SQL.bare_settle, {"keys": list(keys)})
