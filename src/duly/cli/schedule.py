"""`duly schedule`: rules in words, and the times they mean."""

from datetime import UTC, datetime
from itertools import islice

from duly.cli.shown import print_table, to_json
from duly.errors import InvalidArgument
from duly.scheduler import parse_rule
from duly.scheduler.wallclock import parse_zone

__all__ = ["run_next"]


def run_next(text: str, zone: str, first: str | None, count: int, as_json: bool) -> None:
    """Show the next times of a rule."""
    rule, users = parse_rule(text), parse_zone("--zone", zone)
    start = instant(first) if first else datetime.now(UTC)
    here = rule.zone_for(users)
    grain = rule.grain(start, users)
    found = [
        {
            "period": grain.key(at, here),
            "local": at.astimezone(here).isoformat(timespec="minutes"),
            "utc": at.strftime("%Y-%m-%dT%H:%MZ"),
        }
        for at in islice(rule.occurrences(start, users), count)
    ]
    if as_json:
        print(to_json({"rule": text, "says": rule.sentence(users), "zone": here.key, "grain": grain, "next": found}))
        return
    print(rule.sentence(users))
    print_table(("period", here.key, "UTC"), [list(each.values()) for each in found])


def instant(text: str) -> datetime:
    """A time as it was written; without a zone it is UTC."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(f"--first {text}: must be a time such as 2026-01-31T10:00") from None
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
