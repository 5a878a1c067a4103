"""The commands of `duly`. Each is defined in a module of its own, which is imported when the command runs."""

from typing import Annotated

import typer

import duly
from duly.cli.lazy_group import LazyCommand, LazyGroup

SUMMARY = (
    "Durable jobs on PostgreSQL: each runs at its time, under one lease at a time, with an event for every change."
)
DEVELOPMENT = "Development of duly"

COMMANDS = (
    LazyCommand("up", "duly.cli.up", "Start PostgreSQL (embedded, or DATABASE_URL), a worker and the HTTP API."),
    LazyCommand("serve", "duly.cli.serve", "Run the HTTP API."),
    LazyCommand("worker", "duly.cli.worker", "Claim work and run it."),
    LazyCommand("bot", "duly.cli.bot", "Run the Telegram bot by long polling."),
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
    LazyCommand("slo", "duly.cli.slo", "Show whether the service level objectives of posts are met."),
    LazyCommand("psql", "duly.cli.psql", "Open psql on duly's database; further arguments go to psql."),
    LazyCommand("jobs", "duly.cli.jobs", "Enqueue, list, explain and control jobs."),
    LazyCommand("posts", "duly.cli.posts", "Posts: one per person and day, released six hours later."),
    LazyCommand("ingest", "duly.cli.ingest", "Photographed work schedules: versions, changes and notifications."),
    LazyCommand("schedule", "duly.cli.schedule", "Recurring reminders: schedules, their runs and the answers."),
    LazyCommand("notifications", "duly.cli.notifications", "Messages to people: list, resend and resolve them."),
    LazyCommand("expenses", "duly.cli.expenses", "Expenses booked by schedules: list and export them."),
    LazyCommand(
        "partitions",
        "duly.cli.partitions",
        "Monthly partitions of the scheduler's runs: create, archive and drop them.",
    ),
    LazyCommand("orgs", "duly.cli.orgs", "Organizations: the tenants that own jobs and API keys."),
    LazyCommand("users", "duly.cli.users", "Users: uid, Telegram id, time zone, language and addresses."),
    LazyCommand("keys", "duly.cli.keys", "API keys, and the key that signs links in messages."),
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


class Commands(LazyGroup):
    """The top-level group."""

    lazy_commands = COMMANDS


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
