"""`duly worker`: claims work and does it, until told to stop or for one cycle."""

import json
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from duly.cli.opening import must_have_database, open_existing
from duly.db.admin import works_as_login
from duly.db.location import role_on
from duly.executors.lifeline import follow_parent
from duly.logging import configure_logs, get_log
from duly.settings import MAX_WORKER_ID_LENGTH, Settings, load_settings
from duly.wiring import check_input, endings_of, load_app, works_of
from duly.worker.runner import run_worker

__all__ = ["Cycle", "default_worker_id", "run_worker_command", "run_works"]

NOT_DONE = 1


@dataclass(frozen=True)
class Cycle:
    """What one cycle had: how many rows, and how each capture session ended."""

    rows: int
    endings: Sequence[str] = ()
    is_done: bool = True  # no lease was lost, and no error stood in the way


def run_worker_command(only: str | None, app_name: str | None, once: bool, port: int | None, as_json: bool) -> None:
    """Work as the worker's role, on the database of the settings; after one cycle say what it had."""
    cycle = run_works(only, app_name, once, port, as_json, names_host=True)
    if not once:
        return
    if as_json:
        print(json.dumps({"rows": cycle.rows}))
    else:
        for line in cycle.endings:
            print(f"duly: {line}")
        print(f"duly: {cycle.rows} rows in this cycle")
    if not cycle.is_done:
        sys.exit(NOT_DONE)


def run_works(
    only: str | None, app_name: str | None, once: bool, port: int | None, as_json: bool, *, names_host: bool = False
) -> Cycle:
    """Work until told to stop, or for one cycle; named after the host, if WORKER_ID is not set, or not."""
    follow_parent()
    settings = load_settings()
    if port is not None:
        settings = settings.model_copy(update={"worker_port": port})
    if names_host and "worker_id" not in settings.model_fields_set:
        settings = settings.model_copy(update={"worker_id": default_worker_id(socket.gethostname())})
    configure_logs(settings, sys.stderr if as_json else None)
    must_have_database(settings)
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    name = app_name or settings.app
    if names and "ingest" in names:
        check_input(settings, once=once)
    works = works_of(settings, names, load_app(name) if name else None, once=once)
    with open_existing(settings, get_log(__name__).warning) as database:
        dsn = database.dsn_as(settings.worker_role)
        direct = settings.database_direct_url
        rows = run_worker(
            works,
            settings,
            dsn=dsn,
            direct_dsn=direct.get_secret_value() if direct else dsn,
            role=role_to_take(dsn, settings, names),
            once=once,
        )
    endings = endings_of(works)
    return Cycle(rows, endings.lines, endings.is_done) if endings else Cycle(rows)


def default_worker_id(hostname: str) -> str:
    """`<hostname>-<pid>`, as far as a worker may be called so: containers all have a process 1."""
    suffix = f"-{os.getpid()}"
    name = "".join(each if each.isprintable() and each != "/" else "-" for each in hostname).strip() or "worker"
    return name[: MAX_WORKER_ID_LENGTH - len(suffix)] + suffix


def role_to_take(dsn: str, settings: Settings, only: Sequence[str] | None) -> str | None:
    """The worker's role, unless the login is it, or the ingest tables are a backend's and nothing else is worked on."""
    role = role_on(dsn, settings.worker_role)
    return None if role and only == ["ingest"] and works_as_login(dsn, role, settings.db_schema) else role
