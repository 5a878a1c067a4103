"""The doctor's connection: it only reads, neither waits nor is waited for, and is cut off when nobody answers."""

import os
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from threading import Event, Timer
from typing import Any

import psycopg
from psycopg import IsolationLevel

from duly.db.location import place_of
from duly.db.pool import with_keepalive
from duly.db.queries import load_queries
from duly.doctor.words import reason_of
from duly.errors import Unavailable

__all__ = [
    "APPLICATION_NAME",
    "GRACE_SECONDS",
    "Connection",
    "act_as",
    "cut_after",
    "get_login",
    "limit_transaction",
    "open_connection",
]

SQL = load_queries(__file__, "connection.sql")
APPLICATION_NAME = "duly-doctor"
GRACE_SECONDS = 1.0  # the server's own time limit comes first

Connection = psycopg.Connection[Any]


def open_connection(dsn: str) -> Connection:
    """One connection that only reads; it is fit for a pooler."""
    try:
        connection = psycopg.connect(with_keepalive(dsn, APPLICATION_NAME), autocommit=True, prepare_threshold=None)
    except psycopg.OperationalError as error:
        raise Unavailable(f"no PostgreSQL at {place_of(dsn)}: {reason_of(error)}") from None
    connection.isolation_level = IsolationLevel.READ_COMMITTED
    connection.read_only = True
    return connection


def limit_transaction(connection: Connection, seconds: float) -> None:
    """Let no statement of this transaction take longer, nor wait longer for a lock."""
    connection.execute(SQL.limit_transaction, {"milliseconds": str(int(seconds * 1000))})


def act_as(connection: Connection, role: str) -> None:
    """Take a role for the rest of this transaction, when the login may."""
    connection.execute(SQL.act_as, {"role": role})


def get_login(connection: Connection) -> str:
    """Who we are to the server."""
    row = connection.execute(SQL.get_login).fetchone()
    assert row, "a session always has a user"
    return row[0]


@contextmanager
def cut_after(connection: Connection, seconds: float) -> Generator[None, None, None]:
    """Hang up when it takes longer: a server that is stopped or out of reach enforces no time limit of its own."""
    over = Event()
    watch = Timer(seconds, hang_up, [connection, over])
    watch.daemon = True
    watch.start()
    try:
        yield
    except psycopg.OperationalError:
        if over.is_set():
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        raise
    finally:
        watch.cancel()


def hang_up(connection: Connection, over: Event) -> None:
    """End the conversation under whoever waits for an answer: to them it is a server that closed the connection."""
    over.set()
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
