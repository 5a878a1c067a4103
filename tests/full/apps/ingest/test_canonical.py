"""One canonical form: entries that mean the same have the same form."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.noise import add_noise
from tests.support.ingest.strategies import days, wild_days


@settings(max_examples=300)
@given(days | wild_days, st.integers())
def test_noise_does_not_change_the_canonical_day(day: dict[str, Any], seed: int) -> None:
    assert canonicalize(add_noise(day, seed)) == canonicalize(day)
