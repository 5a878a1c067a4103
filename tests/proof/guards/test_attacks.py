"""Every guard of the catalogue is attacked, with it in place and with it removed."""

from typing import Any

import psycopg
import pytest

from tests.proof.guards.attacks import ATTACKS
from tests.proof.guards.catalogue import Guard, list_guards
from tests.proof.guards.removal import attack_without, attacked

Connection = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def guards(sample_database: Connection) -> dict[str, Guard]:
    """Every guard of the catalogue, by its name."""
    return {str(guard): guard for guard in list_guards(sample_database)}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_by_its_guard_and_succeeds_without_it(
    name: str, sample_database: Connection, guards: dict[str, Guard]
) -> None:
    attacked(sample_database, guards[name])
    assert attack_without(sample_database, guards[name]), f"{name} was removed and nothing noticed"
