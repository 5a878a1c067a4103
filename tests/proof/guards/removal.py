"""Take one guard away, attack, and say what went red."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg

from tests.proof.guards.attacks import Unguarded, attack, text
from tests.proof.guards.catalogue import Guard

Connection = psycopg.Connection[Any]


@contextmanager
def undone(connection: Connection) -> Generator[None, None, None]:
    """A transaction of which nothing stays."""
    with connection.transaction(force_rollback=True):
        yield


def attacked(connection: Connection, guard: Guard) -> None:
    """Attack a guard that is in place; what is raised went wrong."""
    with undone(connection):
        attack(connection, guard)


def attack_without(connection: Connection, guard: Guard) -> str | None:
    """Attack a guard that was taken away: what the attack says, None when it did not notice."""
    with undone(connection):
        connection.execute(text(guard.removal))
        try:
            attack(connection, guard)
        except Unguarded as noticed:
            return str(noticed)
    return None
