"""What waking a worker costs those who enqueue: `python tools/bench/wakeup.py` measures four ways to do it.

Single-row inserts, each its own durable commit, in a loop inside the server (a procedure that commits), so that no
client's speed is measured; one listener is connected throughout. The ways take turns within each round, and every ratio
is to the "no notification" of the same round.
"""

import argparse
import itertools
import shutil
import statistics
import tempfile
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from duly.db.admin import create_database, drop_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.testing import server_for_tests

DATABASE = "duly_test_bench_wakeup"
CLIENTS = (1, 16)
WINDOW_SECONDS = 0.05
THE_END = "the end"
IDLE = "only when a worker is idle"
SETUP = """
create schema bench;
create table bench.item (id bigint generated always as identity primary key, payload jsonb not null);

create procedure bench.enqueue(seconds float, inout commits bigint) language plpgsql as $$
declare
    until constant timestamptz := clock_timestamp() + make_interval(secs => seconds);
begin
    commits := 0;
    while clock_timestamp() < until loop
        insert into bench.item (payload) values ('{"text": "Rent is due"}');
        commit;
        commits := commits + 1;
    end loop;
end
$$;

create function bench.wake_nobody() returns trigger language plpgsql as $$
begin
    return null;
end
$$;

create function bench.wake_each() returns trigger language plpgsql as $$
begin
    perform pg_notify('duly_outbox', '');
    return null;
end
$$;

create table bench.last_window (channel text primary key, number bigint not null) with (fillfactor = 10);
insert into bench.last_window values ('outbox', 0);
create function bench.wake_by_row() returns trigger language plpgsql as $$
declare
    this_window constant bigint := floor(date_part('epoch', clock_timestamp()) * 20);
begin
    update bench.last_window as l set number = this_window
    from (
        select channel from bench.last_window where channel = tg_argv[0] and number < this_window for update skip locked
    ) as free
    where l.channel = free.channel;
    if found then
        perform pg_notify('duly_' || tg_argv[0], '');
    end if;
    return null;
end
$$;

create table bench.worker (channel text primary key, is_idle boolean not null) with (fillfactor = 10);
insert into bench.worker values ('outbox', true);
create function bench.wake_the_idle() returns trigger language plpgsql as $$
begin
    if exists (select from bench.worker where channel = tg_argv[0] and is_idle) then
        perform pg_notify('duly_' || tg_argv[0], '');
    end if;
    return null;
end
$$;
"""
TRIGGER = """
create trigger wake after insert on bench.item referencing new table as made
    for each statement execute function {function}('outbox')
"""
WAYS = {
    "no notification": None,
    "a trigger that does nothing": sql.Identifier("bench", "wake_nobody"),
    "one per commit": sql.Identifier("bench", "wake_each"),
    "window in a row, SKIP LOCKED": sql.Identifier("bench", "wake_by_row"),
    "window in a sequence": sql.Identifier("duly", "wake_workers"),
    IDLE: sql.Identifier("bench", "wake_the_idle"),
}


@dataclass(frozen=True)
class Measure:
    """What one way did in one round."""

    commits_per_second: float
    wakes_per_second: float


Measures = dict[tuple[str, int], list[Measure]]


class Listener(threading.Thread):
    """A worker that listens; if it marks itself, it is busy from the moment it is woken for up to two windows."""

    def __init__(self, dsn: str, *, marks_itself: bool) -> None:
        super().__init__()
        self.dsn = dsn
        self.marks_itself = marks_itself
        self.listening = threading.Event()
        self.heard = 0

    def run(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as ear, psycopg.connect(self.dsn, autocommit=True) as hand:
            ear.execute("listen duly_outbox")
            self.listening.set()
            while self.listen_for_two_windows(ear, hand):
                pass

    def listen_for_two_windows(self, ear: psycopg.Connection[Any], hand: psycopg.Connection[Any]) -> bool:
        """Count what is heard; False once it was the end."""
        is_idle = True
        for word in ear.notifies(timeout=2 * WINDOW_SECONDS):
            if word.payload == THE_END:
                return False
            self.heard += 1
            if is_idle and self.marks_itself:
                hand.execute("update bench.worker set is_idle = false")
                is_idle = False
        if not is_idle:
            hand.execute("update bench.worker set is_idle = true")
        return True


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description="What waking a worker costs those who enqueue.")
    parser.add_argument("--rounds", type=int, default=9, help="besides one that warms up and is not counted")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each way runs in each round")
    options = parser.parse_args()
    measures: Measures = {(way, clients): [] for clients in CLIENTS for way in WAYS}
    with server() as dsn:
        for nth in range(options.rounds + 1):
            for clients, way in itertools.product(CLIENTS, WAYS):
                measured = measure(dsn, way, clients, options.seconds)
                if nth > 0:
                    measures[way, clients].append(measured)
            print(f"round {nth} of {options.rounds}", flush=True)
        with psycopg.connect(dsn) as connection:
            print_table(measures, connection.info.server_version // 10_000)


@contextmanager
def server() -> Generator[str, None, None]:
    """A migrated database of our own on TEST_DATABASE_URL, or on a private server with durable settings."""
    if given := server_for_tests():
        yield from database_on(given)
        return
    home = Path(tempfile.mkdtemp(prefix="duly-bench-", dir="/tmp"))  # short enough for a socket
    home.chmod(0o755)
    try:
        with EmbeddedServer.start(home / "duly", settings={"max_connections": "50"}) as private:
            yield from database_on(private.dsn())
            private.close()
            private.wait_stopped(30)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def database_on(server_dsn: str) -> Generator[str, None, None]:
    """The database, gone afterwards."""
    with psycopg.connect(server_dsn, autocommit=True) as admin:
        drop_database(admin, DATABASE)
        dsn = create_database(server_dsn, DATABASE)
        migrate(dsn, Names())
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SETUP)
        yield dsn
        drop_database(admin, DATABASE)


def measure(dsn: str, way: str, clients: int, seconds: float) -> Measure:
    """One way, so many clients, one listener."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        prepare(admin, way)
        listener = Listener(dsn, marks_itself=way == IDLE)
        listener.start()
        listener.listening.wait()
        with ThreadPoolExecutor(clients) as threads:
            commits = sum(threads.map(enqueue, [dsn] * clients, [seconds] * clients))
        admin.execute("select pg_notify('duly_outbox', %s)", [THE_END])
        listener.join()
    return Measure(commits / seconds, listener.heard / seconds)


def prepare(admin: psycopg.Connection[Any], way: str) -> None:
    """An empty table with the trigger of this way, after a checkpoint."""
    admin.execute("drop trigger if exists wake on bench.item")
    admin.execute("truncate bench.item")
    admin.execute("update bench.worker set is_idle = true")
    if function := WAYS[way]:
        admin.execute(sql.SQL(TRIGGER).format(function=function))
    admin.execute("checkpoint")


def enqueue(dsn: str, seconds: float) -> int:
    """One client, until its time is over."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        (commits,) = connection.execute("call bench.enqueue(%s, null)", [seconds]).fetchone() or (0,)
        return commits


def print_table(measures: Measures, version: int) -> None:
    """Medians over the rounds, as Markdown."""
    print(f"\nPostgreSQL {version}, {len(next(iter(measures.values())))} rounds\n")
    columns = [
        f"{n} client{'s' if n > 1 else ''}: {what}" for n in CLIENTS for what in ("commits/s", "ratio", "wakes/s")
    ]
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "---|" * len(columns))
    for way in WAYS:
        cells: list[str] = []
        for clients in CLIENTS:
            ours, base = measures[way, clients], measures["no notification", clients]
            speeds = [each.commits_per_second for each in ours]
            ratios = [one.commits_per_second / two.commits_per_second for one, two in zip(ours, base, strict=True)]
            cells.append(f"{statistics.median(speeds):,.0f} [{min(speeds):,.0f}-{max(speeds):,.0f}]")
            cells.append(f"{statistics.median(ratios):.2f} [{min(ratios):.2f}-{max(ratios):.2f}]")
            cells.append(f"{statistics.median(each.wakes_per_second for each in ours):.0f}")
        print(f"| {way} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
