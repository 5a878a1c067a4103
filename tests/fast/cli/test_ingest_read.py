"""`duly ingest read` through its door: what it tells of each photograph, with eyes that answer what a test says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from duly.apps.ingest.ocr.layout import Card
from duly.apps.ingest.ocr.page import Page
from duly.apps.ingest.photographs import check
from duly.cli import app, reading
from duly.errors import InvalidArgument

ANNA = Card("08:00", "09:00", "Städning", "Anna Svensson", "Åby", "Storgatan 1", 0.99)
KEYS = ["schedule_date", "is_whole", "shifts", "problems", "notes"]
NO_DATE = "schedule_date: none of the photographs shows a date; send one with the head of the day in it"


def page(day: str | None, *shifts: Card, problems: tuple[str, ...] = (), ends: bool = True) -> Page:
    return Page(day, shifts, problems, begins=True, ends=ends)


def days_of(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The days of all photographs."""
    return [day for each in told for day in each["days"]]


Seen = Page | tuple[Page, ...] | Exception


class Looking:
    """Eyes that see in a file what a test says."""

    def __init__(self, *seen: Seen) -> None:
        self.seen = seen

    async def look(self, data: bytes) -> tuple[Page, ...]:
        """The pages of the bytes, which are their place in a list."""
        found = self.seen[int(data)]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, tuple) else (found,)


class Reading:
    """The command, over as many files as there are pages."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.monkeypatch = directory, monkeypatch

    def run(self, *seen: Seen, options: tuple[str, ...] = ()) -> tuple[int, str]:
        """How it ends, and what it prints."""

        def eyes(settings: object, children: object) -> Looking:
            return Looking(*seen)

        self.monkeypatch.setattr(reading, "eyes", eyes)
        self.files = [self.directory / f"{nth}.png" for nth in range(len(seen))]
        for nth, file in enumerate(self.files):
            file.write_text(str(nth))
        ended = CliRunner().invoke(app, ["ingest", "read", *map(str, self.files), *options])
        return ended.exit_code, ended.stdout

    def read(self, *seen: Seen) -> tuple[int, list[dict[str, Any]]]:
        """How it ends, and what it tells programs."""
        status, printed = self.run(*seen, options=("--json",))
        told = json.loads(printed)
        assert [list(each) for each in told] == [["file", "days"]] * len(seen)
        assert [each["file"] for each in told] == [str(file) for file in self.files]
        return status, told


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(tmp_path, monkeypatch)


def test_of_every_photograph_the_same_is_told_whether_or_not_it_can_be_read(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), InvalidArgument("this is no photograph"), page("2026-02-24"))
    days = days_of(told)
    assert [list(each) for each in days] == [KEYS] * 3
    assert [list(shift) for shift in days[0]["shifts"]] == [
        ["start", "end", "title", "customer", "location", "confidence"]
    ]
    assert [each["problems"] for each in days] == [[], ["this is no photograph"], ["no shift was recognised"]]
    assert (days[1]["schedule_date"], days[1]["shifts"], status) == (None, [], 1)


def test_shifts_without_a_date_in_any_photograph_are_a_problem_as_a_session_would_have(command: Reading) -> None:
    status, told = command.read(page(None, ANNA), InvalidArgument("this is no photograph"), page(None, ANNA))
    assert [each["problems"] for each in days_of(told)] == [[NO_DATE], ["this is no photograph"], [NO_DATE]]
    assert status == 1
    with pytest.raises(InvalidArgument, match=NO_DATE):
        check([[page(None, ANNA)]])


def test_a_photograph_without_a_date_beside_one_with_it_is_no_problem(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), page(None, ANNA))
    assert (
        [each["problems"] for each in days_of(told)],
        [each["schedule_date"] for each in days_of(told)],
        status,
    ) == (
        [[], []],
        ["2026-02-24", None],
        0,
    )


def test_what_is_odd_is_told_and_no_problem(command: Reading) -> None:
    odd = "'Fredag 24 februari 2026': 2026-02-24 is a Tuesday"
    seen = Page("2026-02-24", (ANNA,), (), begins=True, ends=True, notes=(odd,))
    status, told = command.read(seen)
    assert (days_of(told)[0]["problems"], days_of(told)[0]["notes"], status) == ([], [odd], 0)
    assert f"note  {odd}" in command.run(seen)[1]


def test_photographs_of_several_days_may_be_read_at_once(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), page("2026-02-25", ANNA))
    assert ([each["problems"] for each in days_of(told)], status) == ([[], []], 0)


def test_a_problem_of_one_photograph_is_its_own_and_ends_with_one(command: Reading) -> None:
    status, told = command.read(page(None, ANNA, problems=("hardly legible",)), page("2026-02-24", ANNA))
    assert ([each["problems"] for each in days_of(told)], status) == ([["hardly legible"], []], 1)


WEEK = (page("2026-02-24", ANNA), page("2026-02-25"), page("2026-02-26", ANNA, ends=False))


def test_every_day_of_a_photograph_is_told_and_whether_it_is_seen_as_a_whole(command: Reading) -> None:
    status, (told,) = command.read(WEEK)
    assert [(day["schedule_date"], day["is_whole"], len(day["shifts"]), day["problems"]) for day in told["days"]] == [
        ("2026-02-24", True, 1, []),
        ("2026-02-25", False, 0, []),
        ("2026-02-26", False, 1, []),
    ]
    assert status == 0


def test_several_days_are_printed_below_their_file_and_one_beside_it(command: Reading) -> None:
    shift = "08:00\N{EN DASH}09:00  Städning, Anna Svensson, Åby  (0.99)"
    status, printed = command.run(WEEK, page("2026-02-24", ANNA))
    week, day = command.files
    assert printed.splitlines() == [
        f"{week}  3 days",
        "  2026-02-24",
        f"    {shift}",
        "  2026-02-25, no shift",
        "  2026-02-26, in part",
        f"    {shift}",
        f"{day}  2026-02-24",
        f"  {shift}",
    ]
    assert status == 0


def test_a_problem_of_one_day_ends_with_one(command: Reading) -> None:
    status, told = command.read((page("2026-02-24", ANNA), page("2026-02-25", ANNA, problems=("hardly legible",))))
    assert ([day["problems"] for day in days_of(told)], status) == ([[], ["hardly legible"]], 1)
    status, told = command.read((page("2026-02-24"), page("2026-02-25")))
    assert ([day["problems"] for day in days_of(told)], status) == ([["no shift was recognised"]] * 2, 1)
