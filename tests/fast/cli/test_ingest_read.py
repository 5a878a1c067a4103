"""`duly ingest read` through its door: what it tells of each photograph, with eyes that answer what a test says."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from duly.cli import app, reading
from duly.errors import InvalidArgument
from duly.ingest.eyes.layout import Card
from duly.ingest.eyes.page import Page
from duly.ingest.photographs import check

ANNA = Card("08:00", "09:00", "Städning", "Anna Svensson", "Åby", "Storgatan 1", 0.99)
KEYS = ["file", "schedule_date", "shifts", "problems"]
NO_DATE = "schedule_date: none of the photographs shows a date; send one with the head of the day in it"


def page(day: str | None, *shifts: Card, problems: tuple[str, ...] = ()) -> Page:
    return Page(day, shifts, problems, begins=True, ends=True)


class Looking:
    """Eyes that see in a file what a test says."""

    def __init__(self, *pages: Page | Exception) -> None:
        self.pages = pages

    async def look(self, data: bytes) -> Page:
        """The page of the bytes, which are its place in a list."""
        found = self.pages[int(data)]
        if isinstance(found, Exception):
            raise found
        return found


class Reading:
    """The command, over as many files as there are pages."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.monkeypatch = directory, monkeypatch

    def read(self, *pages: Page | Exception) -> tuple[int, list[dict[str, Any]]]:
        """How it ends, and what it tells programs."""

        def eyes(settings: object, children: object) -> Looking:
            return Looking(*pages)

        self.monkeypatch.setattr(reading, "eyes", eyes)
        files = [self.directory / f"{nth}.png" for nth in range(len(pages))]
        for nth, file in enumerate(files):
            file.write_text(str(nth))
        ended = CliRunner().invoke(app, ["ingest", "read", *map(str, files), "--json"])
        told = json.loads(ended.stdout)
        assert [each["file"] for each in told] == [str(file) for file in files]
        return ended.exit_code, told


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reading:
    return Reading(tmp_path, monkeypatch)


def test_of_every_photograph_the_same_is_told_whether_or_not_it_can_be_read(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), InvalidArgument("this is no photograph"), page("2026-02-24"))
    assert [list(each) for each in told] == [KEYS] * 3
    assert [list(shift) for shift in told[0]["shifts"]] == [
        ["start", "end", "title", "customer", "location", "confidence"]
    ]
    assert [each["problems"] for each in told] == [[], ["this is no photograph"], ["no shift was recognised"]]
    assert (told[1]["schedule_date"], told[1]["shifts"], status) == (None, [], 1)


def test_shifts_without_a_date_in_any_photograph_are_a_problem_as_a_session_would_have(command: Reading) -> None:
    status, told = command.read(page(None, ANNA), InvalidArgument("this is no photograph"), page(None, ANNA))
    assert [each["problems"] for each in told] == [[NO_DATE], ["this is no photograph"], [NO_DATE]]
    assert status == 1
    with pytest.raises(InvalidArgument, match=NO_DATE):
        check([page(None, ANNA)])


def test_a_photograph_without_a_date_beside_one_with_it_is_no_problem(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), page(None, ANNA))
    assert ([each["problems"] for each in told], [each["schedule_date"] for each in told], status) == (
        [[], []],
        ["2026-02-24", None],
        0,
    )


def test_photographs_of_several_days_may_be_read_at_once(command: Reading) -> None:
    status, told = command.read(page("2026-02-24", ANNA), page("2026-02-25", ANNA))
    assert ([each["problems"] for each in told], status) == ([[], []], 0)


def test_a_problem_of_one_photograph_is_its_own_and_ends_with_one(command: Reading) -> None:
    status, told = command.read(page(None, ANNA, problems=("hardly legible",)), page("2026-02-24", ANNA))
    assert ([each["problems"] for each in told], status) == ([["hardly legible"], []], 1)
