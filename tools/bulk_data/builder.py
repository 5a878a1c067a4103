"""Fill tables in chunks, each statement of `queries.sql` by one function."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, LiteralString, cast

from psycopg import Connection, sql

from duly.db.queries import load_queries

SQL = load_queries(__file__)
AnyConnection = Connection[Any]
Mix = Mapping[str, float]  # shape: how many of a thousand jobs have it

FINISHED: Mix = {
    "done": 880, "retried": 40, "released": 15, "later": 15, "progressed": 30, "dead": 6, "gave_up": 4,
    "canceled": 6, "stopped": 4,
}  # fmt: skip
BACKLOG: Mix = {"waiting": 700, "due_later": 200, "retrying": 90, "redriven": 10}
MIXED: Mix = {
    **{shape: 0.9 * weight for shape, weight in FINISHED.items()},
    **{shape: 0.099 * weight for shape, weight in BACKLOG.items()},
    "running": 1,
}
KINDS = (
    ("invoice.send", "billing"), ("receipt.render", "documents"), ("image.resize", "documents"),
    ("webhook.deliver", "webhooks"), ("email.send", "mail"), ("sms.send", "mail"), ("report.build", "reports"),
    ("search.index", "default"), ("noop", "default"), ("noop", "elsewhere"),
)  # fmt: skip
ORGS = 20
DAYS = 20  # less than the 30 days after which a finished job may be removed
CHUNK = 100_000
MIN_JOBS_TO_DROP_INDEXES = 50_000

# Of the events of a whole history so many are of jobs; `build_history` says what the others are.
SHARE_OF_JOBS = 0.51
EVENTS_OF_A_PERSON = 10_000


def build_jobs(
    connection: AnyConnection,
    jobs: int,
    mix: Mix = MIXED,
    *,
    first: int = 1,
    handled: Sequence[str] = (),
    on_progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Build jobs with their events; those of a handled type that would be due are due in a year.

    Numbers begin at `first`, so that a second call can add to the first. The connection is in autocommit, and a
    superuser's; afterwards its triggers are enabled, and the tables vacuumed and analyzed.
    """
    connection.execute(SQL.disable_triggers)
    connection.execute(SQL.create_drafts)
    with indexed_afterwards(connection, jobs):
        for begin in range(first, first + jobs, CHUNK):
            last = min(first + jobs, begin + CHUNK) - 1
            with connection.transaction():
                connection.execute(SQL.draw_jobs, draw_parameters(mix, first, jobs, begin, last, handled))
                connection.execute(SQL.add_jobs)
                connection.execute(SQL.add_job_events)
                connection.execute(SQL.clear_drafts)
            on_progress(last - first + 1)
    connection.execute(SQL.drop_drafts)
    connection.execute(SQL.enable_triggers)
    connection.execute(SQL.vacuum)


def draw_parameters(
    mix: Mix, first: int, jobs: int, begin: int, last: int, handled: Sequence[str]
) -> dict[str, object]:
    """Build the parameters that draw a chunk: the mix as intervals of [0, 1)."""
    total = sum(mix.values())
    below = [weight / total for weight in accumulate(mix.values())]
    below[-1] = 2.0  # whatever was lost by rounding
    return {
        "shapes": list(mix),
        "above": [0.0, *below[:-1]],
        "below": below,
        "types": [job_type for job_type, _ in KINDS],
        "queues": [queue for _, queue in KINDS],
        "handled": list(handled),
        "orgs": ORGS,
        "days": DAYS,
        "begin": first,
        "jobs": jobs,
        "first": begin,
        "last": last,
    }


@contextmanager
def indexed_afterwards(connection: AnyConnection, jobs: int) -> Generator[None, None, None]:
    """Drop the indexes that no constraint needs, and create them again afterwards, where that is worth it."""
    indexes = connection.execute(SQL.list_indexes).fetchall() if jobs >= MIN_JOBS_TO_DROP_INDEXES else []
    for name, _ in indexes:
        connection.execute(sql.SQL(cast("LiteralString", f"drop index {name}")))
    yield
    connection.execute(SQL.use_memory)
    for _, definition in indexes:
        connection.execute(sql.SQL(cast("LiteralString", definition)))


def build_history(connection: AnyConnection, events: int) -> None:
    """Build the histories of all applications, with about this many events."""
    runs = max(4, int(events * 0.12) // 3 // 4 * 4)
    days = max(1, int(events * 0.06) // 3 // 2)
    build_jobs(connection, max(20, int(events * SHARE_OF_JOBS / events_per_job(connection, MIXED))))
    connection.execute(SQL.disable_triggers)
    connection.execute(SQL.create_partitions)
    connection.execute(SQL.add_people, {"people": max(2, events // EVENTS_OF_A_PERSON)})
    connection.execute(SQL.add_schedules, {"schedules": runs // 4})
    connection.execute(SQL.add_runs, {"runs": runs})
    connection.execute(SQL.add_answers)
    connection.execute(SQL.add_messages)
    connection.execute(SQL.add_posts, {"posts": max(1, int(events * 0.1) // 3)})
    connection.execute(SQL.add_captures, {"days": days})
    connection.execute(SQL.add_days)
    connection.execute(SQL.add_notifications)
    connection.execute(SQL.add_transitions)
    connection.execute(SQL.enable_triggers)
    connection.execute(SQL.vacuum)


def events_per_job(connection: AnyConnection, mix: Mix) -> float:
    """Return how many events a job of this mix has on average."""
    connection.execute(SQL.create_drafts)
    revisions = dict(connection.execute(SQL.count_steps).fetchall())
    connection.execute(SQL.drop_drafts)
    return sum(weight * revisions[shape] for shape, weight in mix.items()) / sum(mix.values())


def count_events(connection: AnyConnection) -> int:
    """Count the events of all histories."""
    row = connection.execute(SQL.count_events).fetchone()
    assert row
    return row[0]
