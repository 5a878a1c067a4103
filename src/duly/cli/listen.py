"""The socket of the API, opened before the server starts, so that its address is known and survives restarts."""

import socket

from duly.configuration.engine import DEFAULT_PORT
from duly.errors import PortTaken

BACKLOG = 256


def listen(host: str, port: int | None) -> socket.socket:
    """Listen on this port; without one on the default port, or on any free one if that is in use."""
    if port is not None:
        return bind(host, port)
    try:
        return bind(host, DEFAULT_PORT)
    except PortTaken:
        return bind(host, 0)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket, or raise PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port or DULY_PORT, "
            "0 for any free one"
        ) from None


def listener_url(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
