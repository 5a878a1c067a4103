"""A new guard gets its attack with the change that adds it, not when the section of guards runs next."""

from typing import Any

import psycopg

from tests.proof.guards.attacks import ATTACKS
from tests.proof.guards.catalogue import list_guards


def test_every_guard_has_an_attack_and_every_attack_a_guard(database: str) -> None:
    with psycopg.connect(database) as connection:
        guards: psycopg.Connection[Any] = connection
        assert sorted(map(str, list_guards(guards))) == sorted(ATTACKS)
