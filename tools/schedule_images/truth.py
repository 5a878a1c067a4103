"""What an image shows: the correct reading, or the reason why the only correct answer is a refusal."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple


class Shift(NamedTuple):
    """A shift as drawn: times as HH:MM on a 24-hour clock, customer empty when none is drawn."""

    start: str
    end: str
    title: str
    customer: str
    location: str


@dataclass(frozen=True)
class Day:
    """The shifts of a date, by their start."""

    date: date
    shifts: Sequence[Shift]


@dataclass(frozen=True)
class Truth:
    """What a correct reading of an image returns.

    An image without a year belongs to 2026, as all do. `refusal_is_fine` allows a refusal beside the correct reading;
    `refuse` allows nothing else.
    """

    days: Sequence[Day]
    refuse: str | None = None
    refusal_is_fine: bool = False
    year_is_drawn: bool = True

    def to_json(self) -> dict[str, Any]:
        """Return the truth as it stands in truth.json."""
        return {
            "days": [
                {"date": day.date.isoformat(), "shifts": [list(shift) for shift in day.shifts]} for day in self.days
            ],
            "refuse": self.refuse,
            "refusal_is_fine": self.refusal_is_fine,
            "year_is_drawn": self.year_is_drawn,
        }


def refused(reason: str, *, year_is_drawn: bool = True) -> Truth:
    """Return the truth of an image that must be refused."""
    return Truth((), refuse=reason, year_is_drawn=year_is_drawn)
