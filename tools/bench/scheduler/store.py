"""One small function per statement: connection in, value out."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection

from duly.db.queries import load_queries

SQL = load_queries(__file__)
AnyConnection = Connection[Any]


# Making ---------------------------------------------------------------------------------------------------------------


def disable_triggers(connection: AnyConnection) -> None:
    """From now on write without guards, logs and checks of keys."""
    connection.execute(SQL.disable_triggers)


def enable_triggers(connection: AnyConnection) -> None:
    """From now on everything is judged and logged again."""
    connection.execute(SQL.enable_triggers)


def add_people(connection: AnyConnection, people: int) -> None:
    """So many people."""
    connection.execute(SQL.add_people, {"people": people})


def add_schedules(connection: AnyConnection, schedules: int, people: int) -> None:
    """So many schedules, none of them due."""
    connection.execute(SQL.add_schedules, {"schedules": schedules, "people": people})


def add_runs(connection: AnyConnection, runs: int) -> None:
    """So many runs of the past."""
    connection.execute(SQL.add_runs, {"runs": runs})


def create_partitions(connection: AnyConnection) -> None:
    """The months that runs of the past lie in."""
    connection.execute(SQL.create_partitions)


def make_due(connection: AnyConnection, due: int) -> int:
    """Have so many schedules be planned now; how many there are."""
    return connection.execute(SQL.make_due, {"due": due}).rowcount


def make_remindable(connection: AnyConnection) -> int:
    """Have the runs that were planned be due; how many there are."""
    return connection.execute(SQL.make_remindable).rowcount


def add_messages(connection: AnyConnection, messages: int) -> None:
    """So many messages, each for somebody else."""
    connection.execute(SQL.add_messages, {"messages": messages})


def vacuum(connection: AnyConnection) -> None:
    """As autovacuum would have left it."""
    connection.execute(SQL.vacuum)


# Looking --------------------------------------------------------------------------------------------------------------


def find_due(connection: AnyConnection) -> int:
    """Ask the contract's own question; how many rows there were."""
    return len(connection.execute(SQL.find_due).fetchall())


def explain_due(connection: AnyConnection) -> Any:
    """How the server answers it."""
    row = connection.execute(SQL.explain_due).fetchone()
    assert row
    return row[0][0]


# A bare program -------------------------------------------------------------------------------------------------------


def bare_claim(connection: AnyConnection, limit: int) -> Sequence[UUID]:
    """Some messages become ours; their ids."""
    cursor = connection.execute(SQL.bare_claim, {"limit": limit})
    place = [column.name for column in cursor.description or ()].index("id")
    return [row[place] for row in cursor.fetchall()]


def bare_settle(connection: AnyConnection, keys: Sequence[UUID]) -> None:
    """They are sent."""
    connection.execute(SQL.bare_settle, {"keys": list(keys)})
