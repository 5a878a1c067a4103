"""One small function per statement: connection in, value out."""

from typing import Any

from psycopg import Connection

from duly.db.queries import load_queries

SQL = load_queries(__file__)
AnyConnection = Connection[Any]


def silence_triggers(connection: AnyConnection) -> None:
    """From now on write without guards, logs and checks of keys."""
    connection.execute(SQL.silence_triggers)


def mind_triggers(connection: AnyConnection) -> None:
    """From now on everything is judged and logged again."""
    connection.execute(SQL.mind_triggers)


def make_months(connection: AnyConnection) -> None:
    """The months that runs of the past lie in."""
    connection.execute(SQL.make_months)


def add_people(connection: AnyConnection, people: int) -> None:
    """So many people."""
    connection.execute(SQL.add_people, {"people": people})


def add_jobs(connection: AnyConnection, jobs: int) -> None:
    """So many jobs, most of them done."""
    connection.execute(SQL.add_jobs, {"jobs": jobs})


def add_job_events(connection: AnyConnection) -> None:
    """What happened to them."""
    connection.execute(SQL.add_job_events)


def add_schedules(connection: AnyConnection, schedules: int) -> None:
    """So many schedules, with their plans."""
    connection.execute(SQL.add_schedules, {"schedules": schedules})


def add_runs(connection: AnyConnection, runs: int) -> None:
    """So many runs, four of each schedule."""
    connection.execute(SQL.add_runs, {"runs": runs})


def add_answers(connection: AnyConnection) -> None:
    """The answers to them, and what was booked."""
    connection.execute(SQL.add_answers)


def add_messages(connection: AnyConnection) -> None:
    """The messages about them."""
    connection.execute(SQL.add_messages)


def add_posts(connection: AnyConnection, posts: int) -> None:
    """So many posts that appeared."""
    connection.execute(SQL.add_posts, {"posts": posts})


def add_captures(connection: AnyConnection, days: int) -> None:
    """Two sessions of so many days."""
    connection.execute(SQL.add_captures, {"days": days})


def add_days(connection: AnyConnection) -> None:
    """What came of them."""
    connection.execute(SQL.add_days)


def add_notifications(connection: AnyConnection) -> None:
    """What was told of them."""
    connection.execute(SQL.add_notifications)


def add_transitions(connection: AnyConnection) -> None:
    """The log of all of these but jobs."""
    connection.execute(SQL.add_transitions)


def count_events(connection: AnyConnection) -> int:
    """How many events there are."""
    row = connection.execute(SQL.count_events).fetchone()
    assert row
    return row[0]


def vacuum(connection: AnyConnection) -> None:
    """As autovacuum would have left it."""
    connection.execute(SQL.vacuum)
