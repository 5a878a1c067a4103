"""`duly serve`: the HTTP API in this process."""

import asyncio
import json
import socket
import sys

import uvicorn
from psycopg import OperationalError, errors

from duly.accounts.service import has_keys
from duly.cli.listen import address_of, listen
from duly.cli.opening import must_have_database, open_existing
from duly.db.location import Database, cannot_connect, open_database, role_on
from duly.db.pool import open_pool
from duly.errors import Misconfigured, NotMigrated
from duly.executors.lifeline import follow_parent
from duly.extras import install
from duly.http.app import build_app
from duly.http.auth import is_loopback
from duly.http.server import server_config
from duly.http.telegram import Receives
from duly.logging import configure_logs, get_log
from duly.settings import Settings, load_settings
from duly.storage import open_objects

__all__ = ["refuse_open_door", "run_serve"]


def run_serve(port: int | None, descriptor: int | None, as_json: bool) -> None:
    """Serve until told to stop, on a socket of our own or on the one `duly up` opened."""
    follow_parent()
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    must_have_database(settings)
    if descriptor is None:
        listener = listen(settings.host, settings.port if port is None else port)
    else:
        listener = socket.socket(fileno=descriptor)
    with listener, open_for(settings, descriptor) as database:
        refuse_open_door(listener, settings, database.dsn)
        if descriptor is None:
            address = address_of(listener)
            print(json.dumps({"api": address}) if as_json else f"duly: API at {address}", flush=True)
        app = build_app(
            database.dsn,
            open_objects(settings),
            role=role_on(database.dsn, settings.api_role),
            pool_size=settings.pool_size,
            ingest_schema=settings.db_schema,
            undo_seconds=settings.scheduler_undo_seconds,
            hook=hook_of(settings),
        )
        uvicorn.Server(server_config(app)).run(sockets=[listener])


def open_for(settings: Settings, descriptor: int | None) -> Database:
    """The database; under `duly up`, which knows that it answered, one that is away for a moment is waited for."""
    if descriptor is None:
        return open_existing(settings, get_log(__name__).warning)
    return open_database(settings, create=False)


def hook_of(settings: Settings) -> Receives | None:
    """The bot that Telegram reaches here; None when there is none, or it asks for updates itself."""
    if not settings.telegram_token or not settings.telegram_webhook_secret:
        return None
    install("telegram")
    from duly.telegram.webhook import Hook

    return Hook(settings)


def refuse_open_door(listener: socket.socket, settings: Settings, dsn: str) -> None:
    """Where others can reach us there must be a lock on the door: a key in the database, if only a revoked one."""
    host = listener.getsockname()[0]
    if is_loopback(host) or asyncio.run(is_locked(dsn, settings)):
        return
    raise Misconfigured(
        f"DULY_HOST={settings.host!r}: others can reach {host}, and the database has no API key yet, without which the "
        "API serves this machine only; make one with: duly keys create NAME --org ORG --scope ledger:read "
        "--scope ledger:write, or set DULY_HOST=127.0.0.1"
    )


async def is_locked(dsn: str, settings: Settings) -> bool:
    """Was a key ever made in this database?"""
    try:
        async with open_pool(dsn, size=1, role=role_on(dsn, settings.api_role), name="duly-api") as pool:
            return await has_keys(pool)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        raise NotMigrated("this database does not have duly's tables yet; make them with: duly migrate") from None
    except OperationalError as error:
        raise cannot_connect(dsn, error) from None
