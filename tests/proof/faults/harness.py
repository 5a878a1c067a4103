"""A world to break: a server of its own, a wire to it for workers and one for clients, a receiver, and a journal.

    clients ---- proxy ----+                        +---- receiver (what really went out)
                           +---- [PgBouncer] ---- PostgreSQL
    workers ---- proxy ----+
       |  forked from a warm parent, all under one WORKER_ID

The harness breaks what it likes. Then it mends everything and lets patient workers finish, and `checks` says what is
not as it was promised: by the invariants of `duly verify`, by the clients' journals, and by the receiver.
"""

import json
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.migrations import Names
from duly.testing.clock import install_test_clock, move_clock
from duly.testing.databases import remove_server_directory
from tests.conftest import build_template
from tests.proof.faults.people import AUTHORS, CAPTURERS, ORG, REMINDED
from tests.proof.faults.workers import FaultWorkerPool
from tests.support.outbox.receiver import Answer, Receiver
from tests.support.pooler import pooler
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.proxy import Proxy
from tests.support.worker_pool import LEASE_LOST

SERVER = {"max_connections": "300", "shared_buffers": "64MB", "max_wal_size": "256MB"}
IN_MEMORY = {"fsync": "off"}  # a killed process loses nothing that it had written; only a dead machine would
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SIX_HOURS = 6 * 3600.0
WORKERS = 5
MIN_WORKERS = 3
PATIENT = ("lease_seconds=20", "heartbeat_seconds=5")  # settings of workers that no fault touches
SETTLE_SECONDS = 120.0
RECORD_SECONDS = 5.0  # so often the logs are kept
WITNESS = """
create schema witness;
create table witness.effect (job uuid not null);
create table witness.log (source text not null, line text not null);
grant usage on schema witness to public;
grant select, insert on witness.effect to public;
"""
WEBHOOKS = """
insert into duly.webhooks (person_id, url, secret) select id, %s, %s from duly.person on conflict do nothing
"""
LOGS: Mapping[str, str] = {
    "duly.transition": "machine, key, seq, prev_status, next_status, actor, ts",
    "ledger.job_event": "job_id, seq, prev_status, next_status, ts",
    "schedule_ingest.schedule_version": "user_id, schedule_date, version, session_id, payload_hash",
    "schedule_ingest.schedule_event": "event_id, user_id, schedule_date, event_type, new_value_hash",
    "scheduler.confirmations": "id, job_run_id, action",
    "expense.expenses": "id, user_id, amount, currency, source_ref",
}
# In the order in which one makes another: what is at rest here is made no more by what stands above it.
WAITING: Mapping[str, str] = {
    "jobs": "select count(*) from ledger.job where status not in ('succeeded', 'dead_letter', 'canceled')",
    "posts": "select count(*) from posts.posts where status <> 'RELEASED'",
    "captures": "select count(*) from schedule_ingest.capture_session where state::text not in ('done', 'failed')",
    "plans": "select count(*) from scheduler.job_plans where state = 'planning' or plan_at <= duly.now()",
    "reminders": "select count(*) from scheduler.job_runs where remind_at <= duly.now()",
    "messages": "select count(*) from duly.outbox where status not in ('sent', 'failed')",
    "notifications": "select count(*) from schedule_ingest.schedule_notification where status = 'pending'",
}


ABSENT = "does not exist"
DISK_FULL = "No space left on device"
REFUSED = "its settle found another owner"  # logged for a refused write; a heartbeat logs another reason


class Loss(NamedTuple):
    """A lease that a worker found lost: because what it wrote was refused, or because its heartbeat noticed."""

    pid: int
    is_refusal: bool


def random_for(*parts: object) -> random.Random:
    """Luck that depends on these words alone."""
    return random.Random("/".join(map(str, parts)))  # noqa: S311


@dataclass(frozen=True)
class Shape:
    """How a world is made."""

    durable: bool = False
    through_pooler: bool = False
    home: Path | None = None  # where the server's data lies; somewhere in /tmp by default
    workers: int = WORKERS
    clients: int = 2
    client_seconds: float = 0.1
    settings: Mapping[str, str] = field(default_factory=dict[str, str])


class Harness:
    """Everything there is, and the hand on it."""

    def __init__(self, directory: Path, seed: int, shape: Shape) -> None:
        self.directory = directory
        self.seed = seed
        self.shape = shape
        self.chance = random_for(seed)  # what faults draw from; an episode gives each its own
        self.pool_chance = random_for(seed, "births")  # which pool starts a worker: how many start cannot be foreseen
        self.counts: Counter[str] = Counter()
        self.log_lines: list[str] = []  # what was done, in order
        self.report: Callable[[str], None] = lambda _: None
        self.started_at = time.monotonic()
        self.over = threading.Event()
        self.pools: list[FaultWorkerPool] = []  # that start workers
        self.all_pools: list[FaultWorkerPool] = []  # that ever did
        self.clients: list[Program] = []
        self.connection: psycopg.Connection[Any] | None = None
        self.began = 0  # clients so far
        self.recorded_at = time.monotonic()  # when the logs were kept last
        self.held_connections: list[psycopg.Connection[Any]] = []  # connections that are held on purpose

    # Making it --------------------------------------------------------------------------------------------------------

    def open(self, stack: ExitStack) -> None:
        """Start everything."""
        settings = {**SERVER, **({} if self.shape.durable else IN_MEMORY), **self.shape.settings}
        home = self.shape.home or self.directory / "server"
        self.server = stack.enter_context(EmbeddedServer.start(home, settings=settings))
        self.dsn = create_database(self.server.dsn(), "chaos_test")
        build_template(self.dsn)
        address = self.dsn
        if self.shape.through_pooler:
            address = stack.enter_context(pooler(self.dsn, self.directory, *ROLES, size=12, is_restarted=True))
        self.receiver = stack.enter_context(Receiver())
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            install_test_clock(admin)
            admin.execute(WITNESS)
            self.people(admin)
        self.wire = stack.enter_context(Proxy(address))
        self.client_wire = stack.enter_context(Proxy(address))
        self.pool = self.add_pool(stack)
        for _ in range(self.shape.workers):
            self.start_worker()

    def people(self, admin: psycopg.Connection[Any]) -> None:
        """An org, authors, people with schedules, people with days; each with a webhook."""
        admin.execute("insert into duly.orgs (id, name) values (%s, 'harness')", [ORG])
        admin.execute("insert into duly.person (uid) select unnest(%s::text[])", [[*AUTHORS, *REMINDED]])
        admin.execute(
            "insert into duly.person (uid, telegram_id) select id::text, id from unnest(%s::bigint[]) as id",
            [list(CAPTURERS)],
        )
        admin.execute(WEBHOOKS, [self.receiver.url, SECRET])
        admin.execute(
            """
            with made as (
                insert into scheduler.jobs (user_id, name, rule, first_run_at, channel)
                select user_id, 'Rent', 'cron: 0 * * * *', duly.clock(), 'webhook' from duly.person where uid = any(%s)
                returning id
            )
            insert into scheduler.expense_templates (job_id, amount, currency, category)
            select id, 9.99, 'EUR', 'rent' from made
            """,
            [REMINDED],
        )

    def add_pool(self, stack: ExitStack, **environment: str) -> FaultWorkerPool:
        """A pool of workers, all under one name."""
        dsn = make_conninfo(self.wire.address, user=Names().worker)
        pool = stack.enter_context(FaultWorkerPool(dsn, DULY_STOP_SECONDS="1", **environment))
        self.pools.append(pool)
        self.all_pools.append(pool)
        return pool

    # Words ------------------------------------------------------------------------------------------------------------

    def log_step(self, text: str) -> None:
        """A line of what was done, and when."""
        line = f"{time.monotonic() - self.started_at:8.2f} {text}"
        self.log_lines.append(line)
        self.report(line)

    def pause(self, seconds: float) -> None:
        """Let the world go on for a while; now and then keep what its logs say."""
        if time.monotonic() > self.recorded_at + RECORD_SECONDS:
            self.record_logs()
        self.over.wait(seconds)

    # The harness's own hand -------------------------------------------------------------------------------------------

    def query(self, statement: str, *given: Any) -> list[Any]:
        """Ask the server itself, past every wire, until it answers; one column comes as values."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            try:
                if self.connection is None or self.connection.closed:
                    self.connection = psycopg.connect(self.dsn, autocommit=True)
                asked = self.connection.execute(statement.encode(), given or None)
                rows = asked.fetchall() if asked.description else []
                return [row[0] if len(row) == 1 else row for row in rows]
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                self.connection = None
                self.pause(0.05)

    def hold_connection(self, connection: psycopg.Connection[Any]) -> None:
        """Hold a connection as it is, until the world settles down."""
        self.held_connections.append(connection)

    def add_missing_webhooks(self) -> None:
        """Give every person without a webhook one."""
        self.query(WEBHOOKS, self.receiver.url, SECRET)

    def pass_time(self, seconds: float) -> None:
        """Let the database's clock jump, so that every lease expires."""
        self.query("select 1")
        assert self.connection
        move_clock(self.connection, seconds)
        self.query("select scheduler.ensure_partitions()")

    # Workers ----------------------------------------------------------------------------------------------------------

    def start_worker(self, *settings: str, pool: FaultWorkerPool | None = None, **environment: str) -> int:
        """Start a worker, in this pool or in any."""
        pool = pool or self.pool_chance.choice(self.pools)
        self.counts["workers born"] += 1
        self.counts["workers with another clock"] += pool is not self.pool
        return pool.start(*settings, **environment)

    def running(self) -> list[tuple[FaultWorkerPool, int]]:
        """Workers that run."""
        return [(pool, pid) for pool in self.pools for pid in pool.running]

    def any_running(self) -> tuple[FaultWorkerPool, int]:
        """A worker that runs; a fresh one, where all have ended by themselves."""
        return self.chance.choice(self.running() or [(self.pool, self.start_worker(pool=self.pool))])

    def fill_up(self) -> None:
        """As many workers as there should be, and enough to finish."""
        while len(self.running()) < max(self.shape.workers, MIN_WORKERS):
            self.start_worker()

    def fill_up_beside(self, others: Sequence[tuple[FaultWorkerPool, int]]) -> None:
        """As many workers as there should be, not counting these."""
        for _ in range(self.shape.workers - len([each for each in self.running() if each not in others])):
            self.start_worker()

    def kill(self, pool: FaultWorkerPool, pid: int) -> None:
        """kill -9."""
        pool.kill(pid)
        self.counts["workers killed"] += 1

    # Clients ----------------------------------------------------------------------------------------------------------

    def start_clients(self) -> None:
        """Let clients ask; each has a seed and a journal of its own."""
        new: list[Program] = []
        for _ in range(self.shape.clients - len(self.clients)):
            self.began += 1
            dsn = make_conninfo(self.client_wire.address, user=Names().api)
            command = [
                *PYTHON,
                "-m",
                "tests.proof.faults.clients",
                dsn,
                self.directory,
                str(self.seed * 100 + self.began),
            ]
            environment = plain_environment(
                PYTHONPATH=os.getcwd(),  # noqa: PTH109
                DULY_OBJECTS_DIR=str(self.directory / "objects"),
                CLIENT_SECONDS=str(self.shape.client_seconds),
            )
            self.clients.append(Program(command, environment=environment))
            new.append(self.clients[-1])
        for client in new:
            assert client.line() == "ready"

    def kill_client(self, nth: int) -> None:
        """Kill a client with SIGKILL and start another in its place."""
        if self.clients:
            with self.clients.pop(nth % len(self.clients)) as client:
                client.kill()
            self.counts["clients killed"] += 1

    def stop_clients(self) -> None:
        """Stop the clients; every request has been answered."""
        for client in self.clients:
            with client:
                client.process.send_signal(signal.SIGTERM)
                assert client.line() == "end", client.stderr_text()
        self.clients.clear()

    def storm(self, *parts: object) -> list[int]:
        """Let every client ask for the same things at once, many times; how often each did, when all are answered."""
        for client in self.clients:
            client.write_line(" ".join(map(str, parts)))
        return [int(client.line().split()[1]) for client in self.clients]

    def journal(self) -> list[dict[str, Any]]:
        """Return the answers that all clients got."""
        lines = [line for file in self.directory.glob("journal-*") for line in file.read_text().splitlines()]
        return [json.loads(line) for line in lines if line.endswith("}")]

    # The end of an episode --------------------------------------------------------------------------------------------

    def undo_faults(self) -> None:
        """Nothing is broken, and nothing is held."""
        self.wire.resume()
        self.client_wire.resume()
        self.receiver.answer = lambda _: Answer()
        self.receiver.delay_seconds = 0.0
        self.receiver.gate.set()
        while self.held_connections:
            self.held_connections.pop().close()

    def calm_down(self) -> None:
        """Patient workers take over: the others lose their leases on a busy machine oftener than they finish."""
        for pool, pid in self.running():
            pool.kill(pid)
        self.fill_up_patiently()

    def fill_up_patiently(self) -> None:
        """Enough patient workers to finish; one that finds no database at its start ends."""
        while len(self.running()) < MIN_WORKERS:
            self.start_worker(*PATIENT)

    def wait_until_settled(self) -> list[str]:
        """Stop the clients, let the workers finish, and report what they did not finish."""
        self.stop_clients()
        self.pass_time(SIX_HOURS + 60)  # every post is due
        deadline = time.monotonic() + SETTLE_SECONDS
        while left := {name: several for name, asked in WAITING.items() if (several := self.query(asked)[0])}:
            if time.monotonic() > deadline:
                return [
                    f"still waiting after {SETTLE_SECONDS:.0f} s: {name}: {self.sample_waiting(name)}" for name in left
                ]
            self.fill_up_patiently()
            self.pause(0.1)
        return []

    def sample_waiting(self, name: str) -> list[Any]:
        """Some of what waits, and all about it."""
        return self.query(
            WAITING[name].replace("count(*)", "to_jsonb(t)", 1).replace(" where", " as t where", 1) + " limit 3"
        )

    def stop_workers(self) -> None:
        """Ask every worker to go."""
        for pool, pid in self.running():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            pool.exit_status(pid)

    def record_logs(self) -> None:
        """Keep the rows of the logs: they must stay for ever. A server that is down or full is skipped."""
        self.recorded_at = time.monotonic()
        with suppress(psycopg.OperationalError), psycopg.connect(self.dsn, autocommit=True) as connection:
            for source, columns in LOGS.items():
                connection.execute(
                    f"insert into witness.log select %s, md5(row({columns})::text) from {source}"
                    " except select source, line from witness.log".encode(),
                    [source],
                )

    def pooler_deaths(self) -> int:
        """How often the pooler died by itself and was started again."""
        noted = self.directory / "pooler" / "deaths"
        return len(noted.read_text().splitlines()) if noted.exists() else 0

    def count_schema_refusals(self) -> int:
        """How often a worker was refused because the schema was not there, by the workers' own logs."""
        return sum(len(pool.logged(ABSENT)) for pool in self.all_pools)

    def count_disk_full_errors(self) -> int:
        """Count how often the server reported a full disk."""
        log = self.server.plan.log
        return sum(DISK_FULL in line for line in log.read_text(errors="replace").splitlines()) if log.exists() else 0

    def losses(self) -> list[Loss]:
        """Every lease that a worker found lost, by the workers' own logs."""
        lines = [line for pool in self.all_pools for line in pool.logged(LEASE_LOST)]
        return [Loss(pid, REFUSED in text) for pid, text in lines]


ROLES = (Names().worker, Names().api)


@contextmanager
def open_harness(seed: int, shape: Shape = Shape()) -> Generator[Harness, None, None]:  # noqa: B008 (frozen)
    """A world for a while."""
    directory = Path(tempfile.mkdtemp(prefix="duly-chaos-", dir="/tmp"))
    directory.chmod(0o755)
    try:
        with ExitStack() as stack:
            harness = Harness(directory, seed, shape)
            harness.open(stack)
            try:
                yield harness
            finally:
                harness.over.set()
                for client in harness.clients:
                    client.__exit__(None, None, None)
                if harness.connection:
                    harness.connection.close()
    finally:
        remove_server_directory(directory)
