"""`duly worker`: claims work and does it, until told to stop or for one cycle."""

import json
import sys
from collections.abc import Sequence

from duly.cli.opening import must_have_database, open_existing
from duly.db.admin import may_use
from duly.db.location import role_on
from duly.logs import configure_logs, get_log
from duly.settings import Settings, load_settings
from duly.wiring import load_app, works_of
from duly.worker.lifeline import follow_parent
from duly.worker.runtime import run_worker

__all__ = ["run_worker_command"]


def run_worker_command(only: str | None, app_name: str | None, once: bool, port: int | None, as_json: bool) -> None:
    """Work as the worker's role, on the database of the settings."""
    follow_parent()
    settings = load_settings()
    if port is not None:
        settings = settings.model_copy(update={"worker_port": port})
    configure_logs(settings, sys.stderr if as_json else None)
    must_have_database(settings)
    names = [name.strip() for name in only.split(",") if name.strip()] if only is not None else None
    name = app_name or settings.app
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
    if once:
        print(json.dumps({"rows": rows}) if as_json else f"duly: {rows} rows in this cycle")


def role_to_take(dsn: str, settings: Settings, only: Sequence[str] | None) -> str | None:
    """The worker's role, unless the login is it, or the ingest tables are a backend's, which the role may not use."""
    role = role_on(dsn, settings.worker_role)
    return None if role and only == ["ingest"] and not may_use(dsn, role, settings.db_schema) else role
