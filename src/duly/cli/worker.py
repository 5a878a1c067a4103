"""`duly worker`: claim work and run it, until stopped or for one cycle."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, runtime_checkable

import typer

from duly.assembly import build_works
from duly.cli.app_name import load_app
from duly.cli.existing_database import log_warning, open_existing, require_database
from duly.cli.options import AppName, Json
from duly.configuration.engine import MAX_WORKER_ID_LENGTH
from duly.db.admin import works_as_login
from duly.db.installed import choose_applications
from duly.db.location import role_to_set
from duly.executors.lifeline import exit_with_parent
from duly.logging import configure_logs
from duly.settings import Settings, load_settings
from duly.worker.runner import run_worker

app = typer.Typer()

NOT_DONE = 1


class CycleReports(Protocol):
    """What came of the rows of one cycle: a line for each, and whether all of them were settled."""

    @property
    def lines(self) -> Sequence[str]: ...
    @property
    def is_settled(self) -> bool: ...


@runtime_checkable
class ReportingWork(Protocol):
    """A work type that reports what came of the rows of one cycle."""

    @property
    def reports(self) -> CycleReports: ...


@dataclass(frozen=True)
class Cycle:
    """The result of one cycle: the number of rows, and a line for each of those that their work reports."""

    rows: int
    lines: Sequence[str] = ()
    is_done: bool = True  # no lease was lost, and no error prevented work


@app.command("worker")
def worker(
    only: Annotated[
        str | None, typer.Option(help="Only these types of work, separated by commas. Default: all.")
    ] = None,
    app_name: AppName = None,
    once: Annotated[bool, typer.Option("--once", help="Run one cycle: claim what is due, run it, exit.")] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of /healthz, /readyz and /metrics. Default: DULY_WORKER_PORT, or no port."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Claim work and run it.

    SIGTERM or Ctrl-C stops it after the running work, a second one at once.

    Example: DATABASE_URL=postgresql://localhost/shop duly worker --app shop.jobs:app
    """
    cycle = run_configured_worker(only, app_name, once, port, as_json, use_hostname=True)
    if not once:
        return
    if as_json:
        print(json.dumps({"rows": cycle.rows}))
    else:
        for line in cycle.lines:
            print(f"duly: {line}")
        print(f"duly: {cycle.rows} rows in this cycle")
    if not cycle.is_done:
        sys.exit(NOT_DONE)


def run_configured_worker(
    only: str | None, app_name: str | None, once: bool, port: int | None, as_json: bool, *, use_hostname: bool = False
) -> Cycle:
    """Run a worker until it is stopped, or for one cycle; without WORKER_ID, `use_hostname` names it after the host."""
    exit_with_parent()
    settings = load_settings()
    if port is not None:
        settings = settings.model_copy(update={"worker_port": port})
    if use_hostname and "worker_id" not in settings.model_fields_set:
        settings = settings.model_copy(update={"worker_id": default_worker_id(socket.gethostname())})
    configure_logs(settings, sys.stderr if as_json else None)
    require_database(settings)
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    name = app_name or settings.app
    app = load_app(name) if name else None
    with open_existing(settings, log_warning) as database:
        if names is None:
            settings = choose_applications(settings, database.dsn)
        works = build_works(settings, names, app, once=once)
        dsn = database.dsn_as(settings.worker_role)
        direct = settings.database_direct_url
        rows = run_worker(
            works,
            settings,
            dsn=dsn,
            direct_dsn=direct.get_secret_value() if direct else dsn,
            role=choose_role(dsn, settings, names),
            once=once,
        )
    results = [work.reports for work in works if isinstance(work, ReportingWork)]
    return Cycle(
        rows, [line for each in results for line in each.lines], is_done=all(each.is_settled for each in results)
    )


def default_worker_id(hostname: str) -> str:
    """Return `<hostname>-<pid>`, made valid: the pid alone is not unique, as containers all have a process 1."""
    suffix = f"-{os.getpid()}"
    name = "".join(each if each.isprintable() and each != "/" else "-" for each in hostname).strip() or "worker"
    return name[: MAX_WORKER_ID_LENGTH - len(suffix)] + suffix


def choose_role(dsn: str, settings: Settings, only: Sequence[str] | None) -> str | None:
    """Return the role to assume: none if the login has it, or for a backend's own ingest tables alone."""
    role = role_to_set(dsn, settings.worker_role)
    return None if role and only == ["ingest"] and works_as_login(dsn, role, settings.db_schema) else role
