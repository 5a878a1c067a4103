"""`duly worker`: claims work and does it, until told to stop or for one cycle."""

import json
import os
import socket
import sys
from collections.abc import Sequence

from duly.db.admin import may_use
from duly.db.location import open_database, role_on
from duly.logs import configure_logs
from duly.settings import LONGEST_WORKER_ID, Settings, load_settings
from duly.wiring import load_app, works_of
from duly.worker.lifeline import follow_parent
from duly.worker.runtime import run_worker

__all__ = ["default_worker_id", "run_worker_command"]


def run_worker_command(
    only: str | None, app_name: str | None, once: bool, port: int | None, as_json: bool, *, names_host: bool = False
) -> None:
    """Work as the worker's role, on the database of the settings; named after the host, if nobody named it, or not."""
    follow_parent()
    settings = load_settings()
    if port is not None:
        settings = settings.model_copy(update={"worker_port": port})
    if names_host and "worker_id" not in settings.model_fields_set:
        settings = settings.model_copy(update={"worker_id": default_worker_id(socket.gethostname())})
    configure_logs(settings, sys.stderr if as_json else None)
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    name = app_name or settings.app
    works = works_of(settings, names, load_app(name) if name else None, once=once)
    with open_database(settings) as database:
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
    if once:
        print(json.dumps({"rows": rows}) if as_json else f"duly: {rows} rows in this cycle")


def default_worker_id(hostname: str) -> str:
    """`<hostname>-<pid>`, as far as a worker may be called so: containers all have a process 1."""
    suffix = f"-{os.getpid()}"
    name = "".join(each if each.isprintable() and each != "/" else "-" for each in hostname).strip() or "worker"
    return name[: LONGEST_WORKER_ID - len(suffix)] + suffix


def role_to_take(dsn: str, settings: Settings, only: Sequence[str] | None) -> str | None:
    """The worker's role, unless the login is it, or the ingest tables are a backend's, which the role may not use."""
    role = role_on(dsn, settings.worker_role)
    return None if role and only == ["ingest"] and not may_use(dsn, role, settings.db_schema) else role
