"""`duly up`: the database, the API, a worker and the bot in one process tree, stopped by Ctrl-C."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, Annotated

import typer

import duly
from duly.applications import SETTING, has_bot
from duly.cli.app_name import load_app
from duly.cli.existing_database import print_warning, warn_of_unknown_variables
from duly.cli.lazy_group import import_tool
from duly.cli.listen import listen, listener_url
from duly.cli.options import AppName, Json, Port
from duly.cli.process_tree import Component, run_tree
from duly.cli.serve import require_key_unless_loopback
from duly.db.embedded import EmbeddedServer
from duly.db.installed import choose_applications
from duly.db.location import Database, direct_dsn, open_database
from duly.db.migrate import migrate
from duly.db.migrations import names_from_settings
from duly.errors import AlreadyRunning, HomeUnusable, InvalidArgument, Unavailable
from duly.extras import install
from duly.formatting import rewrite_commands
from duly.settings import Settings, load_settings

app = typer.Typer()

READY_SECONDS = 30.0
STOP_SECONDS = 4.0
SUPERVISOR_CHECK_SECONDS = 0.5
WORKER_RELEASE_SECONDS = 8.0  # what a worker needs after its own deadline to release its leases
BOT_STOP_SECONDS = 10.0  # it finishes the updates that it is handling
MAX_WAIT_SECONDS = 2.0  # of calls that cannot be interrupted, so that Ctrl-C is quick

Companion = Callable[[asyncio.Event], Coroutine[object, object, None]]  # gets the event that stops everything


@app.command("up")
def up(
    port: Port = None,
    app_name: AppName = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Run a demo of every application in a directory of its own, with the clock moved, and stay up.",
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="With --demo: exit after the demo, as it does without a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start PostgreSQL (embedded, or DATABASE_URL), a worker and the HTTP API.

    Everything runs in this directory until Ctrl-C stops it.

    Example: duly up --app shop.jobs:app --port 8500
    """
    if demo:
        import_tool("tools.demo.command").run_demo(port=port, app_name=app_name, once=once, as_json=as_json)
        return
    if once:
        raise InvalidArgument("--once needs --demo: only a demo ends by itself")
    run_up(port=port, app_name=app_name, as_json=as_json)


def run_up(port: int | None, app_name: str | None, as_json: bool) -> None:
    """Start everything, print where it runs, and stop it on Ctrl-C."""
    settings = load_settings()
    warn_of_unknown_variables()
    if app_name := app_name or settings.app:
        load_app(app_name)  # reports an error now, and not in a worker that cannot start
    if settings.telegram_token:
        install("telegram")  # here, and not in each component at the same time
    started = time.monotonic()
    with directory_lock(settings.home) as write_lock:
        listener = listen(settings.host, settings.port if port is None else port)
        with listener, open_database(settings) as database:
            location = database.describe()
            revisions = migrate(
                direct_dsn(settings, database),
                names_from_settings(settings),
                report=print_warning,
                when_empty=settings.apps,
            )
            settings = choose_applications(settings, database.dsn)
            database.allow_logins((settings.worker_role, settings.api_role, settings.readonly_role))
            require_key_unless_loopback(listener, settings, database.dsn)
            write_lock(about := describe_installation(listener, location, revisions, database.address))
            components = build_components(listener, database, settings, app_name)
            on_stop = partial(print_line, stop_message(components), as_json)
            print_ready = partial(print_when_ready, listener, about, started, as_json)
            asyncio.run(run_until_stopped(database.server, components, print_ready, on_stop=on_stop))
        print_stopped(database.server, as_json)


async def run_until_stopped(
    server: EmbeddedServer | None,
    components: Sequence[Component],
    companion: Companion,
    output: IO[bytes] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> None:
    """Run the components and a companion until SIGINT or SIGTERM; a second signal stops them at once."""
    stop, force_stop = asyncio.Event(), asyncio.Event()

    def handle_signal() -> None:
        if stop.is_set():
            force_stop.set()
            return
        stop.set()
        if on_stop:
            on_stop()  # last: it prints, and fails when nothing reads its output any more

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle_signal)
    async with asyncio.TaskGroup() as group:
        group.create_task(run_tree(components, stop, force_stop, print_warning, output))
        group.create_task(companion(stop))
        if server:
            group.create_task(keep_database_running(server, stop))


def describe_installation(
    listener: socket.socket, location: str, revisions: Sequence[str], database_url: str | None
) -> dict[str, object]:
    """Return what runs here, as `--json` prints it and a second `up` reports it."""
    return {
        "version": duly.__version__,
        "pid": os.getpid(),
        "started_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "database": location,
        "database_url": database_url,
        "revision": ", ".join(revisions),
        "api": listener_url(listener),
    }


def build_components(
    listener: socket.socket, database: Database, settings: Settings, app_name: str | None
) -> list[Component]:
    """Return what to run: the API and a worker, each with its own role, and a bot that has a token and no webhook."""
    descriptor = listener.fileno()
    apps = {SETTING: settings.apps}  # found once, so that a component also starts while the database is down
    bot = Component(
        name="bot",
        arguments=("bot",),
        environment={
            **apps,
            "DATABASE_URL": database.dsn_as(settings.api_role),
            "DULY_LOG_LEVEL": os.environ.get("DULY_LOG_LEVEL", "warning"),
        },
        stop_seconds=BOT_STOP_SECONDS,
    )
    return [
        Component(
            name="api",
            arguments=("serve", "--fd", str(descriptor)),
            environment={**apps, "DATABASE_URL": database.dsn_as(settings.api_role)},
            descriptors=(descriptor,),
        ),
        Component(
            name="worker",
            arguments=("worker", *(("--app", app_name) if app_name else ())),
            environment={
                **apps,
                "DATABASE_URL": database.dsn_as(settings.worker_role),
                "WORKER_POLL_SECONDS": os.environ.get("WORKER_POLL_SECONDS", "1"),
                "DULY_LOG_LEVEL": os.environ.get("DULY_LOG_LEVEL", "warning"),  # a person reads it, not a program
                **telegram_on_console(database),
            },
            stop_seconds=settings.stop_seconds + WORKER_RELEASE_SECONDS,
        ),
        *([bot] if is_bot_polling(settings) else []),
    ]


def telegram_on_console(database: Database) -> dict[str, str]:
    """Return the setting that prints Telegram messages here; it is on by default with an embedded server."""
    name = "DULY_TELEGRAM_ON_CONSOLE"
    return {name: os.environ.get(name, "true")} if database.server else {}


def is_bot_polling(settings: Settings) -> bool:
    """Return whether there is a bot that gets its updates by polling, and what it serves is on."""
    has_token = settings.telegram_token is not None and has_bot(settings.apps)
    return has_token and settings.telegram_webhook_url is None


async def keep_database_running(server: EmbeddedServer, stop: asyncio.Event) -> None:
    """Restart the supervisor of the embedded server whenever it is gone."""
    while not stop.is_set():
        if not server.is_supervised():
            print_warning("the supervisor of PostgreSQL is gone; restarting it")
            try:
                await asyncio.to_thread(server.ensure, MAX_WAIT_SECONDS)
            except Unavailable as error:
                print_warning(str(error))
        try:
            async with asyncio.timeout(SUPERVISOR_CHECK_SECONDS):
                await stop.wait()
        except TimeoutError:
            continue


async def print_when_ready(
    listener: socket.socket, about: Mapping[str, object], started: float, as_json: bool, stop: asyncio.Event
) -> None:
    """Print what runs where, once the API is ready."""
    host, port = listener.getsockname()[:2]
    if not await asyncio.to_thread(wait_until_ready, host, port, stop):
        if not stop.is_set():
            print_warning(
                f"the API is not ready after {READY_SECONDS:.0f} s; see {about['api']}/readyz for what is missing"
            )
        return
    if as_json:
        print(json.dumps(about), flush=True)
        return
    url = about["api"]
    print(
        f"duly {duly.__version__} is up after {time.monotonic() - started:.1f} s\n"
        f"  database  {about['database']}\n"
        f"{database_url_line(about)}"
        f"  schema    {about['revision']}\n"
        f"  api       {url}  (/v1/jobs, /openapi.json, /healthz, /readyz)\n"
        f"  next      in another terminal: {rewrite_commands('duly jobs --help')}    or curl {url}/v1/jobs\n"
        f"  stop      Ctrl-C",
        flush=True,
    )


def database_url_line(about: Mapping[str, object]) -> str:
    """Return the line with the URL of an embedded database; a given DATABASE_URL may hold a password and is omitted."""
    url = about.get("database_url")
    return f"  address   DATABASE_URL='{url}'\n" if url else ""


def wait_until_ready(host: str, port: int, stop: asyncio.Event) -> bool:
    """Poll /readyz until it answers 200; return False if `stop` is set or it takes too long."""
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
def directory_lock(home: Path) -> Generator[Callable[[Mapping[str, object]], object], None, None]:
    """Lock `up.lock`; yields the function that writes what runs into it, which a second `up` prints and stops."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        file = (home / "up.lock").open("a+")
    except OSError as error:
        raise HomeUnusable(
            f"cannot write to {home.absolute()} ({error.strerror}); set DULY_HOME to a writable directory"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise AlreadyRunning(
                f"already running in this directory ({home.absolute()})\n{format_lock(file.read())}"
            ) from None
        file.truncate(0)
        yield lambda about: os.write(file.fileno(), json.dumps(about).encode())
        file.truncate(0)


def format_lock(text: str) -> str:
    """Format what the first process wrote into the lock, on several lines; it may still be starting."""
    try:
        about = json.loads(text)
    except json.JSONDecodeError:
        return "  it is still starting"
    return (
        f"  since     {about['started_at']}\n"
        f"  database  {about['database']}\n"
        f"{database_url_line(about)}"
        f"  api       {about['api']}\n"
        f"  stop      Ctrl-C in its terminal, or: kill {about['pid']}"
    )


def stop_message(components: Sequence[Component]) -> str:
    """Return what the first Ctrl-C prints: how long it may take, and what a second one does."""
    seconds = max(component.stop_seconds for component in components)
    return f"stopping: running work may finish for up to {seconds:.0f} s; Ctrl-C again ends it at once"


def print_stopped(server: EmbeddedServer | None, as_json: bool) -> None:
    """Print the last line: whether PostgreSQL still runs."""
    if server and not server.wait_stopped(STOP_SECONDS):
        print_line("stopped; PostgreSQL is still up: another process of this directory uses it", as_json)
    else:
        print_line("stopped", as_json)


def print_line(message: str, as_json: bool) -> None:
    """Print a line, unless the output is JSON."""
    if not as_json:
        print(f"duly: {message}", flush=True)
