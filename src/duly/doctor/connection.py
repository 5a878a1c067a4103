"""The doctor's connection: read-only, with timeouts, and closed by the client when the server does not respond."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any

import psycopg
from psycopg import IsolationLevel

from duly.db.location import format_location
from duly.db.pool import with_keepalive
from duly.db.queries import load_queries
from duly.doctor.formatting import error_reason
from duly.errors import Unavailable

SQL = load_queries(__file__, "connection.sql")
APPLICATION_NAME = "duly-doctor"
GRACE_SECONDS = 1.0  # the statement_timeout of the server comes first

Connection = psycopg.Connection[Any]


def open_connection(dsn: str) -> Connection:
    """Open a read-only connection that also works through a pooler; raises Unavailable."""
    try:
        connection = psycopg.connect(with_keepalive(dsn, APPLICATION_NAME), autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise Unavailable(f"no PostgreSQL at {format_location(dsn)}: {error_reason(error)}") from None
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    connection.read_only = True
    return connection


def limit_transaction(connection: Connection, seconds: float) -> None:
    """Set statement_timeout and lock_timeout for this transaction."""
    connection.execute(SQL.limit_transaction, {"milliseconds": str(int(seconds * 1000))})


def act_as(connection: Connection, role: str) -> None:
    """Act as a role for the rest of this transaction, if the login may."""
    connection.execute(SQL.act_as, {"role": role})


def get_login(connection: Connection) -> str:
    """Return the session user."""
    row = connection.execute(SQL.get_login).fetchone()
    assert row, "a session always has a user"
    return row[0]


@contextmanager
def disconnect_after(connection: Connection, seconds: float) -> Generator[None, None, None]:
    """Disconnect after a timeout: a server that is stopped or unreachable does not enforce its own."""
    has_timed_out = Event()
    timer = Timer(seconds, disconnect, [connection, has_timed_out])
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.OperationalError:
        if has_timed_out.is_set():
            raise TimeoutError(f"no response within {seconds:g} s") from None
        raise
    finally:
        timer.cancel()


def disconnect(connection: Connection, has_timed_out: Event) -> None:
    """Shut the socket down, so that a waiting query fails as if the server had closed the connection."""
    has_timed_out.set()
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
