"""`duly up`: everything in one process tree, said in a few lines, stopped by Ctrl-C."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO

import duly
from duly.cli.listen import address_of, listen
from duly.cli.opening import warn_of_unknown_variables
from duly.cli.process_tree import Component, run_tree
from duly.cli.serve import refuse_open_door
from duly.db.embedded import EmbeddedServer
from duly.db.location import Database, open_database
from duly.db.migrate import direct_dsn, migrate
from duly.db.migrations import names_of
from duly.errors import AlreadyRunning, HomeUnusable, InvalidArgument, Unavailable
from duly.extras import install
from duly.formatting import as_called
from duly.settings import Settings, load_settings
from duly.wiring import load_app

__all__ = [
    "about_of",
    "components",
    "only_one_here",
    "polls",
    "run_until_stopped",
    "run_up",
    "say_stopped",
    "wait_until_ready",
]

READY_SECONDS = 30.0
STOP_SECONDS = 4.0
LOOK_SECONDS = 0.5
WORKER_GOODBYE_SECONDS = 8.0  # what a worker needs, past its own deadline, to give back what it holds
BOT_GOODBYE_SECONDS = 10.0  # what it is in the middle of is brought to its end
MAX_WAIT_SECONDS = 2.0  # of anything that cannot be interrupted, so that Ctrl-C is quick

Beside = Callable[[asyncio.Event], Coroutine[object, object, None]]  # is told when to stop


def run_up(port: int | None, app_name: str | None, once: bool, as_json: bool) -> None:
    """Start, tell, keep running, stop."""
    if once:
        raise InvalidArgument("--once: only a demo comes to an end; say --demo --once, or leave it out")
    settings = load_settings()
    warn_of_unknown_variables()
    if app_name := app_name or settings.app:
        load_app(app_name)  # what is wrong with it is said now, not by a worker that cannot start
    if settings.telegram_token:
        install("telegram")  # once, and not by each component at the same time
    began = time.monotonic()
    with only_one_here(settings.home) as note:
        listener = listen(settings.host, settings.port if port is None else port)
        with listener, open_database(settings) as database:
            where = database.describe()
            revision = migrate(direct_dsn(settings, database), names_of(settings), report=complain)
            database.allow_logins((settings.worker_role, settings.api_role, settings.readonly_role))
            refuse_open_door(listener, settings, database.dsn)
            note(about := about_of(listener, where, revision, database.address))
            tree = components(listener, database, settings, app_name)
            say_stopping = partial(say, stopping_in_words(tree), as_json)
            greeting = partial(greet, listener, about, began, as_json)
            asyncio.run(run_until_stopped(database.server, tree, greeting, say_stopping=say_stopping))
        say_stopped(database.server, as_json)


async def run_until_stopped(
    server: EmbeddedServer | None,
    tree: Sequence[Component],
    beside: Beside,
    output: IO[bytes] | None = None,
    say_stopping: Callable[[], None] | None = None,
) -> None:
    """Run the tree, and something beside it, until SIGINT or SIGTERM; a second one hurries it."""
    stop, hurry = asyncio.Event(), asyncio.Event()

    def hear() -> None:
        if say_stopping and not stop.is_set():
            say_stopping()
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, hear)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_tree(tree, stop, report=complain, hurry=hurry, output=output))
        group.create_task(beside(stop))
        if server:
            group.create_task(keep_database(server, stop))


def about_of(listener: socket.socket, where: str, revision: str | None, address: str | None) -> dict[str, object]:
    """What runs here, for whoever asks."""
    return {
        "version": duly.__version__,
        "pid": os.getpid(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "database": where,
        "database_url": address,
        "revision": revision,
        "api": address_of(listener),
    }


def components(
    listener: socket.socket, database: Database, settings: Settings, app_name: str | None
) -> list[Component]:
    """What runs: the API and a worker, each as its own role; and a bot that has a token and no webhook."""
    descriptor = listener.fileno()
    bot = Component(
        name="bot",
        arguments=("bot",),
        environment={
            "DATABASE_URL": database.dsn_as(settings.api_role),
            "DULY_LOG_LEVEL": os.environ.get("DULY_LOG_LEVEL", "warning"),
        },
        stop_seconds=BOT_GOODBYE_SECONDS,
    )
    return [
        Component(
            name="api",
            arguments=("serve", "--fd", str(descriptor)),
            environment={"DATABASE_URL": database.dsn_as(settings.api_role)},
            descriptors=(descriptor,),
        ),
        Component(
            name="worker",
            arguments=("worker", *(("--app", app_name) if app_name else ())),
            environment={
                "DATABASE_URL": database.dsn_as(settings.worker_role),
                "WORKER_POLL_SECONDS": os.environ.get("WORKER_POLL_SECONDS", "1"),
                "DULY_LOG_LEVEL": os.environ.get("DULY_LOG_LEVEL", "warning"),  # here people look, not programs
                **on_console(database),
            },
            stop_seconds=settings.stop_seconds + WORKER_GOODBYE_SECONDS,
        ),
        *([bot] if polls(settings) else []),
    ]


def on_console(database: Database) -> dict[str, str]:
    """On the embedded server a person tries things out: without a bot token they see Telegram messages here."""
    name = "DULY_TELEGRAM_ON_CONSOLE"
    return {name: os.environ.get(name, "true")} if database.server else {}


def polls(settings: Settings) -> bool:
    """Is there a bot that asks for its updates itself?"""
    return settings.telegram_token is not None and settings.telegram_webhook_url is None


async def keep_database(server: EmbeddedServer, stop: asyncio.Event) -> None:
    """Bring the embedded server back when even its supervisor was killed."""
    while not stop.is_set():
        if not server.is_supervised():
            complain("the supervisor of PostgreSQL is gone; starting it again")
            try:
                await asyncio.to_thread(server.ensure, MAX_WAIT_SECONDS)
            except Unavailable as error:
                complain(str(error))
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await stop.wait()
        except TimeoutError:
            continue


async def greet(
    listener: socket.socket, about: Mapping[str, object], began: float, as_json: bool, stop: asyncio.Event
) -> None:
    """Say what runs where, once it does."""
    host, port = listener.getsockname()[:2]
    if not await asyncio.to_thread(wait_until_ready, host, port, stop):
        if not stop.is_set():
            complain(f"the API is not ready after {READY_SECONDS:.0f} s; ask {about['api']}/readyz what is missing")
        return
    if as_json:
        print(json.dumps(about), flush=True)
        return
    address = about["api"]
    print(
        f"duly {duly.__version__} is up after {time.monotonic() - began:.1f} s\n"
        f"  database  {about['database']}\n"
        f"{address_line(about)}"
        f"  schema    {about['revision']}\n"
        f"  api       {address}  (/v1/jobs, /v1/posts, /v1/ingest, /v1/schedules, /healthz, /readyz)\n"
        f"  next      in another terminal: {as_called('duly jobs --help')}    or curl {address}/v1/jobs\n"
        f"  stop      Ctrl-C",
        flush=True,
    )


def address_line(about: Mapping[str, object]) -> str:
    """The line with the address of an embedded database; a DATABASE_URL may hold a password and is not repeated."""
    address = about.get("database_url")
    return f"  address   DATABASE_URL='{address}'\n" if address else ""


def wait_until_ready(host: str, port: int, stop: asyncio.Event) -> bool:
    """Ask /readyz until it says yes; False when we are told to stop or it takes too long."""
    deadline = time.monotonic() + READY_SECONDS
    while not stop.is_set() and time.monotonic() < deadline:
        connection = HTTPConnection(host, port, timeout=MAX_WAIT_SECONDS)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return True
        except (OSError, HTTPException):
            pass  # the API is still starting, or being restarted
        finally:
            connection.close()
        time.sleep(0.1)
    return False


@contextmanager
def only_one_here(home: Path) -> Generator["Note", None, None]:
    """Hold this directory's `up.lock`, in which the holder notes what runs; a second `up` reads it out and stops."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / "up.lock").open("a+")
    except OSError as error:
        raise HomeUnusable(
            f"cannot write to {home.absolute()} ({error.strerror}); set DULY_HOME to a directory you may write"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(
                f"already running in this directory ({home.absolute()})\n{what_runs(file.read())}"
            ) from None
        file.truncate(0)
        yield Note(file.fileno())
        file.truncate(0)


class Note:
    """Writes down what runs, for a second `up` to read."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __call__(self, about: Mapping[str, object]) -> None:
        os.write(self.descriptor, json.dumps(about).encode())


def what_runs(note: str) -> str:
    """The first process's note, a line each; it may still be starting."""
    try:
        about = json.loads(note)
    except json.JSONDecodeError:
        return "  it is still starting"
    return (
        f"  since     {about['started_at']}\n"
        f"  database  {about['database']}\n"
        f"{address_line(about)}"
        f"  api       {about['api']}\n"
        f"  stop      Ctrl-C in its terminal, or: kill {about['pid']}"
    )


def stopping_in_words(tree: Sequence[Component]) -> str:
    """What is waited for after Ctrl-C, for how long at most, and what a second one does."""
    seconds = max(component.stop_seconds for component in tree)
    return f"stopping: running work may finish for up to {seconds:.0f} s; Ctrl-C again ends it at once"


def say_stopped(server: EmbeddedServer | None, as_json: bool) -> None:
    """The last line: whether anything of ours still runs."""
    if server and not server.wait_stopped(STOP_SECONDS):
        say("stopped; PostgreSQL is still up, another process of this directory uses it", as_json)
    else:
        say("stopped", as_json)


def say(message: str, as_json: bool) -> None:
    """A line for the person at the terminal."""
    if not as_json:
        print(f"duly: {message}", flush=True)


def complain(message: str) -> None:
    """A line about something that went wrong and is being mended."""
    print(f"duly: {message}", file=sys.stderr, flush=True)
