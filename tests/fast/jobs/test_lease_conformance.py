"""Conformance tests of leases on jobs: claimed, settled, released and swept by the functions that workers use.

Tests of state transitions are in `test_machine.py`.
"""

import pytest

from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.tables import JOBS, Shape
from tests.support.conformance.with_note import *  # noqa: F403


@pytest.fixture
def shape() -> Shape:
    """Jobs."""
    return JOBS
