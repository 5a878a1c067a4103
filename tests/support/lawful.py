"""A test leaves its database lawful: what `duly verify` looks for is looked for after it."""

from typing import Any

import psycopg
import pytest

from duly.verify import check
from duly.verify.invariants import invariants_of

__all__ = ["leave_lawful"]


def leave_lawful(
    connection: psycopg.Connection[Any], request: pytest.FixtureRequest, contract: str, *schemas: str
) -> None:
    """Nothing breaks a law of this contract when the test is over, unless it says that it breaks some on purpose."""
    if request.node.get_closest_marker("lawless") is None:
        assert check(connection, ("duly", *schemas), invariants_of([contract])) == []
