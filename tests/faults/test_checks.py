"""What is asked after an episode is asked of the server, and would be answered: a wait that is planted is found."""

import threading
import time
from contextlib import suppress
from typing import Any, cast

import psycopg
import pytest

from tests.faults.checks import WAITS, not_at_rest
from tests.faults.world import World

SECONDS = 30.0


class Asked:
    """As much of a world as can be asked."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def ask(self, statement: str) -> list[Any]:
        """What the server says."""
        return self.connection.execute(statement.encode()).fetchall()


def wait_for_a_lock(database: str) -> None:
    """Want what another has, until somebody ends us."""
    with suppress(psycopg.OperationalError), psycopg.connect(database, application_name="waiter") as waiter:
        waiter.execute("lock table planted")


@pytest.mark.lawless
def test_who_waits_for_a_lock_for_longer_than_a_second_is_found(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin, psycopg.connect(database) as holder:
        world = cast("World", Asked(admin))
        admin.execute("create table planted ()")
        assert list(not_at_rest(world)) == []
        holder.execute("lock table planted")
        waiting = threading.Thread(target=wait_for_a_lock, args=[database])
        waiting.start()
        try:
            deadline = time.monotonic() + SECONDS
            while not admin.execute(WAITS.encode()).fetchall():
                assert time.monotonic() < deadline, "nobody waits"
            found = list(not_at_rest(world))
        finally:
            holder.rollback()
            waiting.join(SECONDS)
        assert len(found) == 1
        assert found[0].endswith("(waiter) waits for AccessExclusiveLock on planted")
        assert list(not_at_rest(world)) == []
