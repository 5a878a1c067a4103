"""Waiting before the next try: doubled until the cap, and spread by a fifth either way."""

import math
from dataclasses import FrozenInstanceError
from random import Random, SystemRandom
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.backoff import MAX_SECONDS, Backoff, BackoffPolicy
from duly.errors import InvalidArgument
from duly.jobs.model import JobOptions

POLICIES = st.sampled_from(BackoffPolicy)
ATTEMPTS = st.integers(0, 5000) | st.integers(0, 10**40)
SECONDS = st.floats(0, MAX_SECONDS)


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
def test_a_wait_is_within_a_fifth_of_its_nominal_length(backoff: Backoff, attempt: int, random: Random) -> None:
    delay, nominal = backoff.delay_seconds(attempt, random), backoff.nominal_seconds(attempt)
    assert 0 <= nominal <= backoff.cap_seconds
    assert nominal * 0.8 <= delay <= nominal * 1.2
    assert math.isfinite(delay)


@given(backoffs(), ATTEMPTS, ATTEMPTS)
def test_nominal_wait_never_decreases_with_the_attempt(backoff: Backoff, one: int, other: int) -> None:
    assert backoff.nominal_seconds(min(one, other)) <= backoff.nominal_seconds(max(one, other))


def test_the_wait_doubles_from_the_base_until_the_cap() -> None:
    nominal = [Backoff().nominal_seconds(attempt) for attempt in range(8)]
    assert nominal == [15, 30, 60, 120, 240, 480, 600, 600]


@given(st.randoms(use_true_random=True))
def test_default_attempts_outlast_an_outage_of_three_minutes(random: Random) -> None:
    attempts = JobOptions().max_attempts
    assert attempts == 5
    waits = [Backoff().delay_seconds(attempt, random) for attempt in range(attempts - 1)]
    assert sum(waits) >= 180
    assert sum(waits) <= 270


@pytest.mark.parametrize("attempt", [0, 3, 9, 10**30])
def test_the_mean_wait_is_the_nominal_one(attempt: int) -> None:
    backoff, random = Backoff(), SystemRandom()
    mean = fmean(backoff.delay_seconds(attempt, random) for _ in range(10_000))
    assert mean / backoff.nominal_seconds(attempt) == pytest.approx(1.0, abs=0.012)  # ten standard deviations


@pytest.mark.parametrize(("answer", "share"), [(0.0, 0.8), (0.25, 0.9), (0.5, 1.0), (0.999, 1.1996)])
def test_jitter_goes_from_four_fifths_to_six_fifths(answer: float, share: float) -> None:
    assert Backoff().delay_seconds(2, Fixed(answer)) == pytest.approx(60 * share)


@pytest.mark.parametrize("attempt", [0, 7, 10**30])
def test_policy_none_waits_zero_and_policy_fixed_waits_the_base(attempt: int) -> None:
    assert Backoff(BackoffPolicy.NONE, 5, 10).delay_seconds(attempt) == 0
    assert Backoff(BackoffPolicy.FIXED, 5, 10).delay_seconds(attempt) == 5


def test_waits_are_random_without_an_explicit_random_source() -> None:
    assert len({Backoff().delay_seconds(9) for _ in range(100)}) > 90


def test_the_policies_are_spelled_as_in_the_contract() -> None:
    assert [str(policy) for policy in BackoffPolicy] == ["none", "fixed", "exp"]


@pytest.mark.parametrize(
    ("base", "cap"),
    [(-1, 10), (11, 10), (1, math.inf), (math.nan, 10), (1, math.nan), (math.inf, math.inf), (1, MAX_SECONDS + 1)],
)
def test_invalid_backoff_is_refused_with_its_base_and_cap(base: float, cap: float) -> None:
    with pytest.raises(InvalidArgument, match=f"base {base} s and cap {cap} s"):
        Backoff(BackoffPolicy.EXP, base, cap)


def test_negative_attempt_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="attempt -1"):
        Backoff().delay_seconds(-1)


def test_backoff_is_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        Backoff().base_seconds = 2  # pyright: ignore[reportAttributeAccessIssue]
