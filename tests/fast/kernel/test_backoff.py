"""Waiting before the next try: never longer than the cap, and spread evenly below the ceiling."""

import math
from dataclasses import FrozenInstanceError
from random import Random, SystemRandom
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.errors import InvalidArgument
from duly.kernel.backoff import LONGEST_SECONDS, Backoff, BackoffPolicy

POLICIES = st.sampled_from(BackoffPolicy)
ATTEMPTS = st.integers(0, 5000) | st.integers(0, 10**40)
SECONDS = st.floats(0, LONGEST_SECONDS)


@st.composite
def backoffs(draw: st.DrawFn) -> Backoff:
    base, cap = sorted([draw(SECONDS), draw(SECONDS)])
    return Backoff(draw(POLICIES), base, cap)


class Fixed(Random):
    """A source that always answers the same."""

    def __init__(self, answer: float) -> None:
        super().__init__()
        self.answer = answer

    def random(self) -> float:
        return self.answer


@given(backoffs(), ATTEMPTS, st.randoms())
def test_a_wait_is_never_negative_and_never_above_its_ceiling(backoff: Backoff, attempt: int, random: Random) -> None:
    delay = backoff.delay_seconds(attempt, random)
    assert 0 <= delay <= backoff.ceiling_seconds(attempt) <= backoff.cap_seconds
    assert math.isfinite(delay)


@given(backoffs(), ATTEMPTS, ATTEMPTS)
def test_a_later_attempt_never_has_a_lower_ceiling(backoff: Backoff, one: int, other: int) -> None:
    assert backoff.ceiling_seconds(min(one, other)) <= backoff.ceiling_seconds(max(one, other))


def test_the_ceiling_doubles_from_the_base_until_the_cap() -> None:
    ceilings = [Backoff().ceiling_seconds(attempt) for attempt in range(12)]
    assert ceilings == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600]


@pytest.mark.parametrize("attempt", [0, 3, 9, 10**30])
def test_the_mean_wait_is_half_the_ceiling(attempt: int) -> None:
    backoff, random = Backoff(), SystemRandom()
    mean = fmean(backoff.delay_seconds(attempt, random) for _ in range(10_000))
    assert mean / backoff.ceiling_seconds(attempt) == pytest.approx(0.5, abs=0.03)  # ten standard deviations


@pytest.mark.parametrize(("answer", "share"), [(0.0, 0.0), (0.25, 0.25), (0.999, 0.999)])
def test_jitter_is_full_from_nothing_to_the_ceiling(answer: float, share: float) -> None:
    assert Backoff().delay_seconds(5, Fixed(answer)) == pytest.approx(32 * share)


@pytest.mark.parametrize("attempt", [0, 7, 10**30])
def test_none_goes_at_once_and_fixed_waits_the_base(attempt: int) -> None:
    assert Backoff(BackoffPolicy.NONE, 5, 10).delay_seconds(attempt) == 0
    assert Backoff(BackoffPolicy.FIXED, 5, 10).delay_seconds(attempt) == 5


def test_waits_differ_without_a_source_of_ones_own() -> None:
    assert len({Backoff().delay_seconds(9) for _ in range(100)}) > 90


def test_the_policies_are_spelled_as_in_the_contract() -> None:
    assert [str(policy) for policy in BackoffPolicy] == ["none", "fixed", "exp"]


@pytest.mark.parametrize(
    ("base", "cap"),
    [(-1, 10), (11, 10), (1, math.inf), (math.nan, 10), (1, math.nan), (math.inf, math.inf), (1, LONGEST_SECONDS + 1)],
)
def test_a_rule_that_makes_no_sense_is_refused_with_its_numbers(base: float, cap: float) -> None:
    with pytest.raises(InvalidArgument, match=f"base {base} s and cap {cap} s"):
        Backoff(BackoffPolicy.EXP, base, cap)


def test_an_attempt_before_the_first_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="attempt -1"):
        Backoff().delay_seconds(-1)


def test_a_rule_does_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        Backoff().base_seconds = 2  # pyright: ignore[reportAttributeAccessIssue]
