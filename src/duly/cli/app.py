"""What the command line offers; how it is done is imported on use, so that `duly --help` stays quick."""

from typing import Annotated

import typer

import duly
from duly.cli.bench_app import bench_app
from duly.cli.expenses_app import expenses_app
from duly.cli.ingest_app import ingest_app
from duly.cli.jobs_app import jobs_app
from duly.cli.notifications_app import notifications_app
from duly.cli.partitions_app import partitions_app
from duly.cli.people_app import keys_app, orgs_app, users_app
from duly.cli.posts_app import posts_app
from duly.cli.schedule_app import schedule_app

__all__ = ["app"]

app = typer.Typer(
    name="duly",
    help="Durable work on PostgreSQL: later, once, by one holder at a time, provable afterwards.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

app.add_typer(jobs_app, name="jobs")
app.add_typer(posts_app, name="posts")
app.add_typer(ingest_app, name="ingest")
app.add_typer(schedule_app, name="schedule")
app.add_typer(notifications_app, name="notifications")
app.add_typer(expenses_app, name="expenses")
app.add_typer(partitions_app, name="partitions")
app.add_typer(orgs_app, name="orgs")
app.add_typer(users_app, name="users")
app.add_typer(keys_app, name="keys")

WORKSHOP = "Working on duly itself"
app.add_typer(bench_app, name="bench", rich_help_panel=WORKSHOP)
PASS_ARGUMENTS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}

Port = Annotated[
    int | None,
    typer.Option(
        min=0, max=65535, help="Port of the API; 0 takes any free one. Default: DULY_PORT, else 8420 or a free one."
    ),
]
AppName = Annotated[
    str | None,
    typer.Option("--app", help="Your job types, as module:variable. Default: DULY_APP, or none."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


def show_version(wanted: bool) -> None:
    """`duly --version`."""
    if wanted:
        print(f"duly {duly.__version__}")
        raise typer.Exit


@app.callback()
def duly_command(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=show_version, is_eager=True)
    ] = False,
) -> None:
    """Durable work on PostgreSQL: later, once, by one holder at a time, provable afterwards."""


@app.command()
def up(
    port: Port = None,
    app_name: AppName = None,
    demo: Annotated[
        bool,
        typer.Option(
            "--demo",
            help="Show one item going through each domain, in a directory of its own, with the clock moved; then stay.",
        ),
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="With --demo: end with the story; so it does where nobody watches.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start everything here: PostgreSQL (embedded, or DATABASE_URL), a worker and the API. Ctrl-C stops it.

    Example: duly up --app shop.jobs:app --port 8500
    """
    if demo:
        from duly.cli.demo import run_demo

        run_demo(port=port, app_name=app_name, once=once, as_json=as_json)
        return
    from duly.cli.up import run_up

    run_up(port=port, app_name=app_name, once=once, as_json=as_json)


@app.command()
def serve(
    port: Port = None,
    as_json: Json = False,
    descriptor: Annotated[int | None, typer.Option("--fd", hidden=True, help="A listening socket we inherit.")] = None,
) -> None:
    """Run the HTTP API alone: on loopback, or where DULY_HOST says once there is a key.

    Example: DATABASE_URL=postgresql://localhost/app duly serve --port 8500
    """
    from duly.cli.serve import run_serve

    run_serve(port=port, descriptor=descriptor, as_json=as_json)


@app.command()
def worker(
    only: Annotated[
        str | None, typer.Option(help="Only these kinds of work, separated by commas; unset: all there are.")
    ] = None,
    app_name: AppName = None,
    once: Annotated[bool, typer.Option("--once", help="One cycle: take what is due, do it, end.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port for /healthz, /readyz and /metrics. Default: DULY_WORKER_PORT, or none."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Claim work and do it. SIGTERM or Ctrl-C stops politely, a second one at once.

    Example: DATABASE_URL=postgresql://localhost/shop duly worker --app shop.jobs:app
    """
    from duly.cli.worker import run_worker_command

    run_worker_command(only=only, app_name=app_name, once=once, port=port, as_json=as_json)


@app.command()
def bot(as_json: Json = False) -> None:
    """Listen to what people tap and write on Telegram, by long polling. SIGTERM or Ctrl-C stops politely.

    Example: TELEGRAM_BOT_TOKEN=123456:AA... DATABASE_URL=postgresql://localhost/app duly bot
    """
    from duly.cli.bot import run_bot

    run_bot(as_json=as_json)


@app.command()
def migrate(
    to: Annotated[str, typer.Option(help="The revision to go to, up or down; `base` is nothing at all.")] = "head",
    as_sql: Annotated[bool, typer.Option("--sql", help="Print the SQL for an empty database; run none.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before a downgrade drops tables with rows.")] = False,
    as_json: Json = False,
) -> None:
    """Bring the database to a revision: whole or not at all, and never long in anybody's way.

    A downgrade that drops tables with rows lists them and asks first; without a terminal it needs --yes.

    Example: duly migrate --sql > duly.sql
    """
    from duly.cli.migrate import run_migrate

    run_migrate(to=to, as_sql=as_sql, yes=yes, as_json=as_json)


@app.command()
def verify(
    contract: Annotated[str | None, typer.Option(help="Only this contract; unset: all there are.")] = None,
    print_contract: Annotated[
        bool,
        typer.Option(
            "--print-contract",
            help="Print the contract itself as JSON, for checkers in any language; open no database.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Is this database what the contracts say, and do the invariants hold? Reads only; exit 1 when not.

    Example: duly verify --json
    """
    from duly.cli.verify import run_print_contract, run_verify

    if print_contract:
        run_print_contract(contract=contract)
    else:
        run_verify(contract=contract, as_json=as_json)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Why did this not happen? Looks at the server, the settings and the workers; exit 1 when something is bad.

    Example: duly doctor --json
    """
    from duly.cli.doctor import run_doctor

    run_doctor(as_json=as_json)


@app.command()
def slo(as_json: Json = False) -> None:
    """Are the promises about posts kept: intents that succeed, releases in time, none stuck? Exit 1 when not.

    Example: duly slo --json
    """
    from duly.cli.slo import run_slo

    run_slo(as_json=as_json)


@app.command(context_settings=PASS_ARGUMENTS_ON)
def psql(context: typer.Context) -> None:
    """Open psql on duly's database; further arguments go to psql.

    Example: duly psql -c 'select version()'
    """
    from duly.cli.psql import run_psql

    run_psql(context.args)


@app.command("test", context_settings=PASS_ARGUMENTS_ON, rich_help_panel=WORKSHOP)
def run_tests(
    context: typer.Context,
    full: Annotated[
        bool, typer.Option("--full", help="Fast and full: everything that must hold before a change lands.")
    ] = False,
    rest: Annotated[bool, typer.Option("--rest", help="Full without fast.")] = False,
    gate: Annotated[bool, typer.Option("--gate", help="The fault gate: a minute of faults, alone.")] = False,
    proof: Annotated[
        bool, typer.Option("--proof", help="Nightly: all sections, or those that are named; `list` names them.")
    ] = False,
) -> None:
    """Run the fast tests on a real PostgreSQL, parallel and in random order; further arguments go to pytest.

    Example: duly test tests/full/jobs -k claim
    """
    from duly.cli import workshop

    tiers = {"--full": full, "--rest": rest, "--gate": gate, "--proof": proof}
    workshop.run_tests([*(name for name, is_asked in tiers.items() if is_asked), *context.args])


@app.command(rich_help_panel=WORKSHOP)
def chaos(
    minutes: Annotated[
        float, typer.Option(min=0.1, help="How long; every kind of episode comes at least once.")
    ] = 10.0,
    seed: Annotated[
        int | None, typer.Option(help="Do what a run with this seed did. Default: another every time.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these episodes of --list, by commas. With --guards: those whose name matches this."),
    ] = None,
    episode: Annotated[
        str | None, typer.Option(help="Instead: this episode alone, with the --seed that a run said it had.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1, help="With --episode: how long. Default: 75.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write the page docs/figures/chaos.md.")] = False,
    guards: Annotated[
        bool, typer.Option("--guards", help="Instead: remove every guard in turn, and see a test go red for each.")
    ] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Say which episodes, or guards, there are.")] = False,
    as_json: Json = False,
) -> None:
    """Break things on purpose, on a server of their own, and hold every promise against what is left.

    Example: duly chaos --minutes 30 --seed 7 --report
    """
    from duly.cli.workshop import run_chaos, run_guards

    if guards:
        run_guards(only=only, report=report, list_only=list_only, as_json=as_json)
    options = {"minutes": minutes, "seed": seed, "only": only, "episode": episode, "seconds": seconds}
    run_chaos(options, report=report, list_only=list_only, as_json=as_json)


@app.command(rich_help_panel=WORKSHOP)
def check(as_json: Json = False) -> None:
    """Run the static checks: ruff, pyright, the import rules, the lock.

    Example: duly check
    """
    from duly.cli.workshop import run_checks

    run_checks(as_json=as_json)


@app.command(rich_help_panel=WORKSHOP)
def lock(
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Take the newest versions instead of keeping ours.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Regenerate requirements.lock, and the pins of uv, from pyproject.toml.

    Example: duly lock --upgrade
    """
    from duly.cli.lock import run_lock

    run_lock(upgrade=upgrade, as_json=as_json)
