"""Times on the command line: without a zone they are in the user's zone, by one rule for all commands."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from duly.cli.times import parse_duration, parse_time
from duly.errors import InvalidArgument

NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def stockholm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run this process in the zone of Stockholm."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Stockholm")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "zone", "expected", "printed"),
    [
        ("2030-01-31T13:00+01:00", None, NOON, ""),
        ("2030-01-31T12:00Z", "Asia/Tokyo", NOON, ""),
        ("2030-01-31T13:00", None, NOON, "duly: --at 2030-01-31T13:00: read as 2030-01-31 13:00:00 CET\n"),
        ("2030-01-31T21:00", "Asia/Tokyo", NOON, "duly: --at 2030-01-31T21:00: read as 2030-01-31 21:00:00 JST\n"),
        (
            "2030-07-01",
            None,
            datetime(2030, 6, 30, 22, tzinfo=UTC),
            "duly: --at 2030-07-01: read as 2030-07-01 00:00:00 CEST\n",
        ),
    ],
)
def test_time_without_a_zone_uses_the_given_or_local_zone_and_prints_it(
    text: str, zone: str | None, expected: datetime, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert parse_time("--at", text, ZoneInfo(zone) if zone else None) == expected
    assert capsys.readouterr() == ("", printed)


@pytest.mark.parametrize("text", ["soon", "", "2030-13-01", "0001-01-01", "9999-12-31T23:59:59-01:00", "10:00"])
def test_invalid_time_is_refused_with_the_option_and_an_example(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"--at '.*': must be a time such as 2030-01-31T08:00\+01:00, or a date"):
        parse_time("--at", text)


def test_omitted_time_option_is_none() -> None:
    assert parse_time("--at", None) is None
    assert parse_duration("--delay", None) is None
    assert parse_duration("--delay", "1h30m") == 5400
