"""`duly serve`: the HTTP API in this process."""

import asyncio
import json
import socket
import sys
from typing import TYPE_CHECKING, Annotated

import typer
import uvicorn
from psycopg import OperationalError

from duly.accounts.service import has_keys
from duly.applications import has_bot, list_applications, load
from duly.cli.existing_database import log_warning, open_existing, require_database
from duly.cli.listen import listen, listener_url
from duly.cli.options import Json, Port
from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.installed import choose_applications
from duly.db.location import Database, connection_error, open_database, role_to_set
from duly.db.pool import open_pool
from duly.errors import Misconfigured, NotMigrated
from duly.executors.lifeline import exit_with_parent
from duly.extras import install
from duly.http.app import build_app
from duly.http.auth import is_loopback
from duly.http.server import server_config
from duly.http.telegram import WebhookBot
from duly.logging import configure_logs
from duly.settings import Settings, load_settings

if TYPE_CHECKING:  # storage needs the extra for applications
    from duly.storage import ObjectStore

app = typer.Typer()


@app.command("serve")
def serve(
    port: Port = None,
    as_json: Json = False,
    descriptor: Annotated[
        int | None, typer.Option("--fd", hidden=True, help="An inherited listening socket, opened by `duly up`.")
    ] = None,
) -> None:
    """Run the HTTP API.

    It listens on loopback, or on DULY_HOST once there is an API key.

    Example: DATABASE_URL=postgresql://localhost/app duly serve --port 8500
    """
    exit_with_parent()
    settings = load_settings()
    configure_logs(settings, sys.stderr)
    require_database(settings)
    if descriptor is None:
        listener = listen(settings.host, settings.port if port is None else port)
    else:
        listener = socket.socket(fileno=descriptor)
    with listener, open_for(settings, descriptor) as database:
        require_key_unless_loopback(listener, settings, database.dsn)
        if descriptor is None:
            settings = choose_applications(settings, database.dsn)
            url = listener_url(listener)
            print(json.dumps({"api": url}) if as_json else f"duly: API at {url}", flush=True)
        api = build_app(
            settings,
            database.dsn,
            open_images(settings),
            role=role_to_set(database.dsn, settings.api_role),
            webhook=build_webhook(settings),
        )
        uvicorn.Server(server_config(api)).run(sockets=[listener])


def open_for(settings: Settings, descriptor: int | None) -> Database:
    """Open the database; under `duly up`, which has checked it, one that is down for a moment is waited for."""
    if descriptor is None:
        return open_existing(settings, log_warning)
    return open_database(settings, create=False)


def open_images(settings: Settings) -> "ObjectStore | None":
    """Open the object store of the applications; None where jobs are served alone."""
    if not list_applications(settings.apps):
        return None
    from duly.storage import open_object_store

    return open_object_store(settings)


def build_webhook(settings: Settings) -> WebhookBot | None:
    """Return the handler of Telegram's webhook; None if there is no bot, it polls, or what it serves is off."""
    if not settings.telegram_token or not settings.telegram_webhook_secret or not has_bot(settings.apps):
        return None
    install("telegram")
    return load("duly.telegram.webhook:TelegramWebhook")(settings)  # above this package, like an application


def require_key_unless_loopback(listener: socket.socket, settings: Settings, dsn: str) -> None:
    """Raise Misconfigured if other machines can reach the API and no API key was ever created."""
    host = listener.getsockname()[0]
    if is_loopback(host) or asyncio.run(needs_key(dsn, settings)):
        return
    raise Misconfigured(
        f"DULY_HOST={settings.host!r}: other machines can reach {host}, but the database has no API key yet; create "
        "one with: duly keys create NAME --org ORG --scope ledger:read --scope ledger:write, or set DULY_HOST=127.0.0.1"
    )


async def needs_key(dsn: str, settings: Settings) -> bool:
    """Return whether an API key was ever created in this database, so that requests need one."""
    try:
        async with open_pool(dsn, size=1, role=role_to_set(dsn, settings.api_role), name="duly-api") as pool:
            return await has_keys(pool)
    except MISSING_OBJECT_ERRORS:
        raise NotMigrated from None
    except OperationalError as error:
        raise connection_error(dsn, error) from None
