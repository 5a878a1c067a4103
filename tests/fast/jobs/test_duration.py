"""Durations in every accepted form."""

from datetime import timedelta

import pytest

import duly
from duly.errors import InvalidArgument
from duly.jobs.duration import Duration, to_seconds


@pytest.mark.parametrize(
    ("duration", "seconds"),
    [(0, 0), (1.5, 1.5), ("90s", 90), ("2m", 120), ("1h30m", 5400), ("7d", 604800), ("250ms", 0.25), ("1.5h", 5400)],
)
def test_duration_strings_are_parsed(duration: Duration, seconds: float) -> None:
    assert to_seconds(duration) == pytest.approx(seconds)  # pyright: ignore[reportUnknownMemberType]


def test_timedelta_durations_are_converted() -> None:
    assert to_seconds(timedelta(minutes=3)) == 180


@pytest.mark.parametrize("bad", ["", "5", "m", "5 m", "5m!", "-5s", "1y", -1, float("nan"), float("inf"), "9999d"])
def test_invalid_duration_is_refused_with_the_expected_format(bad: Duration) -> None:
    with pytest.raises(InvalidArgument, match="duration"):
        to_seconds(bad)


def test_job_retention_is_limited_to_ten_years() -> None:
    app = duly.App()
    assert app.job("kept", retain="3650d")(perform).options.retain_seconds == 3650 * 86_400
    with pytest.raises(InvalidArgument, match=r"retain='4000d'.*must be between 1 and 3660 days"):
        app.job("kept_too_long", retain="4000d")


def perform(ctx: duly.Context) -> None:
    """Do nothing."""
