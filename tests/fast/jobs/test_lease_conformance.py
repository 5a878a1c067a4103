"""Conformance tests of leases on jobs: claimed, settled, released and swept by the functions that workers use.

Tests of state transitions are in `test_machine.py`.
"""

import pytest

from tests.support.conformance.everywhere import *  # noqa: F403
from tests.support.conformance.noted import *  # noqa: F403
from tests.support.conformance.tables import JOBS, Shape


@pytest.fixture
def shape() -> Shape:
    """Jobs."""
    return JOBS
