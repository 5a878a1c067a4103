"""`duly serve`: the HTTP API in this process."""

import json
import socket

import uvicorn

from duly.api.app import build_app
from duly.cli.listen import address_of, listen
from duly.db.location import open_database
from duly.settings import load_settings
from duly.worker.lifeline import follow_parent

__all__ = ["run_serve"]

GRACE_SECONDS = 2


def run_serve(port: int | None, descriptor: int | None, as_json: bool) -> None:
    """Serve until told to stop, on a socket of our own or on the one `duly up` opened."""
    follow_parent()
    settings = load_settings()
    if descriptor is None:
        listener = listen(settings.host, settings.port if port is None else port)
        address = address_of(listener)
        print(json.dumps({"api": address}) if as_json else f"duly: API at {address}", flush=True)
    else:
        listener = socket.socket(fileno=descriptor)
    with listener, open_database(settings) as database:
        config = uvicorn.Config(
            build_app(database.dsn), log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])
