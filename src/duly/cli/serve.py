"""`duly serve`: the HTTP API in this process."""

import socket
import sys

import uvicorn

from duly.api.app import build_app
from duly.cli.listen import address_of, listen
from duly.db.location import open_database
from duly.settings import load_settings
from duly.worker.lifeline import follow_parent

__all__ = ["run_serve"]

GRACE_SECONDS = 2


def run_serve(port: int | None, descriptor: int | None) -> None:
    """Serve until told to stop, on a socket of our own or on the one `duly up` opened."""
    follow_parent()
    settings = load_settings()
    if descriptor is None:
        listener = listen(settings.host, settings.port if port is None else port)
        print(f"duly: API at {address_of(listener)}", file=sys.stderr, flush=True)
    else:
        listener = socket.socket(fileno=descriptor)
    with listener, open_database(settings) as database:
        config = uvicorn.Config(
            build_app(database.dsn), log_level="warning", timeout_graceful_shutdown=GRACE_SECONDS, server_header=False
        )
        uvicorn.Server(config).run(sockets=[listener])
