"""The server of a run, with a database whose histories have so many events, and are in order."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from duly.db.admin import create_database
from duly.db.migrate import migrate
from duly.db.migrations import Names
from tools.bench.ground import Server, open_server
from tools.bench.verify import store

# Of a hundred events so many are of jobs; the rest is told in `fill`. A job has 3.15 of them, most others three.
OF_JOBS, EVENTS_OF_A_JOB = 0.51, 3.15
EVENTS_OF_A_PERSON = 10_000


@dataclass(frozen=True)
class Filled:
    """A database, and how many events it really has."""

    dsn: str
    events: int


@dataclass
class Ground(Server):
    """The server of a run."""

    there_are: dict[int, Filled] = field(default_factory=dict[int, Filled])

    def filled(self, events: int) -> Filled:
        """The database with so many events; looking changes nothing, so every round has the same."""
        if events not in self.there_are:
            dsn = create_database(self.dsn, f"bench_{events}")
            migrate(dsn, Names())
            with psycopg.connect(dsn, autocommit=True) as admin:
                fill(admin, events)
                self.there_are[events] = Filled(dsn, store.count_events(admin))
            self.checkpoint()
        return self.there_are[events]

    def say(self, words: str) -> None:
        """Say what is worth knowing beside the figures."""
        print(words, file=sys.stderr, flush=True)


@contextmanager
def open_ground() -> Generator[Ground, None, None]:
    """A server with durable settings, for as long as this."""
    with open_server(Ground) as ground:
        yield ground


def fill(admin: psycopg.Connection[object], events: int) -> None:
    """Histories of all domains, as a restore writes them: without guards and triggers."""
    runs = max(4, int(events * 0.12) // 3 // 4 * 4)
    days = max(1, int(events * 0.06) // 3 // 2)
    store.silence_triggers(admin)
    store.make_months(admin)
    store.add_people(admin, max(2, events // EVENTS_OF_A_PERSON))
    store.add_jobs(admin, max(20, int(events * OF_JOBS / EVENTS_OF_A_JOB)))
    store.add_job_events(admin)
    store.add_schedules(admin, runs // 4)
    store.add_runs(admin, runs)
    store.add_answers(admin)
    store.add_messages(admin)
    store.add_posts(admin, max(1, int(events * 0.1) // 3))
    store.add_captures(admin, days)
    store.add_days(admin)
    store.add_notifications(admin)
    store.add_transitions(admin)
    store.mind_triggers(admin)
    store.vacuum(admin)
