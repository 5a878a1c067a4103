"""`duly schedule` as people and programs run it."""

import json
import subprocess
from typing import Any

from tests.support.processes import PYTHON, plain_environment

FIRST = ["--first", "2026-03-28T00:00Z", "--zone", "Europe/Stockholm"]


def duly(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command; it needs no database."""
    return subprocess.run(
        [*PYTHON, "-m", "duly", "schedule", *arguments],
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_schedule_preview_prints_the_next_times_in_zone_and_utc_with_periods() -> None:
    ran = duly("next", "cron: 30 2 * * *", *FIRST, "--count", "2")
    assert ran.returncode == 0, ran.stderr
    assert "At 02:30 every day, Europe/Stockholm" in ran.stdout
    assert "2026-03-29T03:00+02:00" in ran.stdout
    assert "2026-03-29T01:00Z" in ran.stdout


def test_schedule_preview_prints_json() -> None:
    ran = duly("next", '{"every": "month", "day": 1, "at": "10:00"}', *FIRST, "--count", "1", "--json")
    printed: dict[str, Any] = json.loads(ran.stdout)
    assert (printed["zone"], printed["period_unit"]) == ("Europe/Stockholm", "month")
    assert printed["next"] == [{"period": "2026-04", "local": "2026-04-01T10:00+02:00", "utc": "2026-04-01T08:00Z"}]


def test_an_invalid_rule_is_refused_with_the_position() -> None:
    ran = duly("next", "cron: 61 * * * *")
    assert ran.returncode == 2
    assert "the minute of `61 * * * *`, at character 1, is '61'" in ran.stderr
    ran = duly("next", "cron: 0 * * * *", "--first", "soon")
    assert ran.returncode == 2
    assert "--first 'soon': must be a time" in ran.stderr
