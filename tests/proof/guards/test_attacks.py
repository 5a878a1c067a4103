"""Every guard of the catalogue is attacked, with it in place and with it removed."""

from typing import Any

import psycopg
import pytest

from tests.proof.guards.attacks import ATTACKS
from tests.proof.guards.catalogue import Guard, guards_of
from tests.proof.guards.removal import attack_without, attacked

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def guards(ground: Connection) -> dict[str, Guard]:
    """Every guard of the catalogue, by its name."""
    return {str(guard): guard for guard in guards_of(ground)}


def test_every_guard_has_an_attack_and_every_attack_a_guard(guards: dict[str, Guard]) -> None:
    assert sorted(guards) == sorted(ATTACKS)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_guard_withstands_its_attack_and_nothing_else_does(
    name: str, ground: Connection, guards: dict[str, Guard]
) -> None:
    attacked(ground, guards[name])
    assert attack_without(ground, guards[name]), f"{name} was removed and nothing noticed"
