"""The commands of `duly`. Each is defined in a module of its own, which is imported when the command runs.

The commands of an application are listed by its declaration, and are there while it is switched on.
"""

import os
from typing import Annotated, Any

import typer

import duly
from duly.applications import EXTRA, SETTING, check_names, default_names, describe_as_off, list_applications
from duly.cli.lazy_group import LazyCommand, LazyGroup
from duly.errors import Misconfigured
from duly.extras import require

SUMMARY = (
    "Durable jobs on PostgreSQL: each runs at its time, under one lease at a time, with an event for every change."
)
DEVELOPMENT = "Development of duly"

ENGINE_COMMANDS = (
    LazyCommand(
        "up", "duly.cli.up", "Start PostgreSQL (embedded, or DATABASE_URL), a worker and the HTTP API.", extra="server"
    ),
    LazyCommand("serve", "duly.cli.serve", "Run the HTTP API.", extra="server"),
    LazyCommand("worker", "duly.cli.worker", "Claim work and run it."),
    LazyCommand("bot", "duly.telegram.cli", "Run the Telegram bot by long polling.", extra="telegram"),
    LazyCommand(
        "migrate",
        "duly.cli.migrate",
        "Migrate the database in one transaction, with short lock timeouts.",
    ),
    LazyCommand(
        "verify", "duly.cli.verify", "Compare the database with the contracts and check the invariants; read-only."
    ),
    LazyCommand(
        "doctor", "duly.cli.doctor", "Check the server, the settings and the workers, and print how to fix problems."
    ),
    LazyCommand("psql", "duly.cli.psql", "Open psql on duly's database; further arguments go to psql."),
    LazyCommand("jobs", "duly.cli.jobs", "Enqueue, list, explain and control jobs."),
    LazyCommand("notifications", "duly.cli.notifications", "Messages to people: list, resend and resolve them."),
    LazyCommand("orgs", "duly.cli.orgs", "Organizations: the tenants that own jobs and API keys."),
    LazyCommand("people", "duly.cli.people", "People: uid, Telegram id, time zone, language and addresses."),
    LazyCommand("keys", "duly.cli.keys", "API keys, and the key that signs links in messages."),
)
DEVELOPMENT_COMMANDS = (
    LazyCommand(
        "test",
        "tools.commands.development",
        "Run the fast tests on a real PostgreSQL, in parallel and random order; further arguments go to pytest.",
        DEVELOPMENT,
    ),
    LazyCommand(
        "chaos",
        "tools.commands.development",
        "Inject faults on a private server and check every guarantee afterwards.",
        DEVELOPMENT,
    ),
    LazyCommand(
        "check",
        "tools.commands.development",
        "Run the static checks: ruff, pyright, import rules, lock files.",
        DEVELOPMENT,
    ),
    LazyCommand(
        "lock", "tools.commands.lock", "Regenerate requirements.lock and uv's pins from pyproject.toml.", DEVELOPMENT
    ),
    LazyCommand("bench", "tools.commands.bench", "Reproducible benchmarks, each on a private server.", DEVELOPMENT),
)


def read_setting() -> str:
    """Read DULY_APPS without the other settings, which take longer to import; raises Misconfigured."""
    value = os.environ.get(SETTING) or default_names()
    try:
        check_names(value)
    except ValueError as error:
        raise Misconfigured(f"{SETTING}={value!r}: {error}") from None
    return value


def list_commands(apps: str) -> tuple[LazyCommand, ...]:
    """List the commands of the engine, of the applications that are on, and for development."""
    of_applications = [
        LazyCommand(each.name, each.module, each.summary)
        for application in list_applications(apps)
        for each in application.commands
    ]
    return (*ENGINE_COMMANDS, *of_applications, *DEVELOPMENT_COMMANDS)


class Commands(LazyGroup):
    """The top-level group."""

    def __init__(self, **attributes: Any) -> None:
        self.apps = read_setting()
        super().__init__(list_commands(self.apps), **attributes)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; raises Misconfigured for one of an application that is switched off or not installed."""
        for application in list_applications():
            if args[0] not in self.commands and any(each.name == args[0] for each in application.commands):
                require(EXTRA)
                raise Misconfigured(describe_as_off(self.apps, f"the command '{args[0]}'", application))
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="duly",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def print_version(is_requested: bool) -> None:
    """Print the version and exit, for `duly --version`."""
    if is_requested:
        print(f"duly {duly.__version__}")
        raise typer.Exit


@app.callback(help=SUMMARY)
def duly_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Accept the options that stand before a command."""
