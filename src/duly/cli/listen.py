"""The socket the API listens on, opened before the server starts so that its address is known and kept."""

import socket

from duly.errors import PortTaken
from duly.settings import DEFAULT_PORT

__all__ = ["address_of", "listen"]

BACKLOG = 256


def listen(host: str, port: int | None) -> socket.socket:
    """Listen on the wanted port; without a wish on the usual one, or any free one when that is taken."""
    if port is not None:
        return bind(host, port)
    try:
        return bind(host, DEFAULT_PORT)
    except PortTaken:
        return bind(host, 0)


def bind(host: str, port: int) -> socket.socket:
    """One listening socket, or PortTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise PortTaken(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another with --port or DULY_PORT, "
            "0 for any free one"
        ) from None


def address_of(listener: socket.socket) -> str:
    """The address a person can open."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
