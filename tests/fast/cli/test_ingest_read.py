"""`duly ingest read`: what it prints of each photograph, with an OCR runner that returns what a test gives."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from duly.apps.ingest.cli import read
from duly.apps.ingest.ocr.block_fields import RecognisedShift
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.photographs import check_pages
from duly.cli import app
from duly.errors import InvalidArgument

ANNA = RecognisedShift("08:00", "09:00", "Städning", "Anna Svensson", "Åby", "Storgatan 1", 0.99)
KEYS = ["schedule_date", "is_whole", "shifts", "problems", "notes"]
NO_DATE = "schedule_date: none of the photographs shows a date; send one with the head of the day in it"


def page(day: str | None, *shifts: RecognisedShift, problems: tuple[str, ...] = (), ends: bool = True) -> RecognisedDay:
    return RecognisedDay(day, shifts, problems, shows_day_start=True, shows_day_end=ends)


def all_days(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the days of all photographs."""
    return [day for each in documents for day in each["days"]]


Result = RecognisedDay | tuple[RecognisedDay, ...] | Exception


class FakeOcr:
    """An OCR runner that returns what a test gives for each file."""

    def __init__(self, *results: Result) -> None:
        self.results = results

    async def recognise(self, data: bytes) -> tuple[RecognisedDay, ...]:
        """Return the days of a file, whose content is its index."""
        found = self.results[int(data)]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, tuple) else (found,)


class ReadCommand:
    """The command, run on as many files as there are results."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory, self.monkeypatch = directory, monkeypatch

    def run(self, *results: Result, options: tuple[str, ...] = ()) -> tuple[int, str]:
        """Run the command; return its exit status and output."""

        def build_ocr_runner(settings: object, children: object) -> FakeOcr:
            return FakeOcr(*results)

        self.monkeypatch.setattr(read, "build_ocr_runner", build_ocr_runner)
        self.files = [self.directory / f"{nth}.png" for nth in range(len(results))]
        for nth, file in enumerate(self.files):
            file.write_text(str(nth))
        ended = CliRunner().invoke(app, ["ingest", "read", *map(str, self.files), *options])
        return ended.exit_code, ended.stdout

    def read(self, *results: Result) -> tuple[int, list[dict[str, Any]]]:
        """Run the command with --json; return its exit status and documents."""
        status, printed = self.run(*results, options=("--json",))
        documents = json.loads(printed)
        assert [list(each) for each in documents] == [["file", "days"]] * len(results)
        assert [each["file"] for each in documents] == [str(file) for file in self.files]
        return status, documents


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReadCommand:
    return ReadCommand(tmp_path, monkeypatch)


def test_every_photograph_has_the_same_fields_whether_or_not_it_can_be_read(command: ReadCommand) -> None:
    status, documents = command.read(
        page("2026-02-24", ANNA), InvalidArgument("this is no photograph"), page("2026-02-24")
    )
    days = all_days(documents)
    assert [list(each) for each in days] == [KEYS] * 3
    assert [list(shift) for shift in days[0]["shifts"]] == [
        ["start", "end", "title", "customer", "location", "confidence"]
    ]
    assert [each["problems"] for each in days] == [[], ["this is no photograph"], ["no shift was recognised"]]
    assert (days[1]["schedule_date"], days[1]["shifts"], status) == (None, [], 1)


def test_shifts_without_a_date_in_any_photograph_are_a_problem(command: ReadCommand) -> None:
    status, documents = command.read(page(None, ANNA), InvalidArgument("this is no photograph"), page(None, ANNA))
    assert [each["problems"] for each in all_days(documents)] == [[NO_DATE], ["this is no photograph"], [NO_DATE]]
    assert status == 1
    with pytest.raises(InvalidArgument, match=NO_DATE):
        check_pages([[page(None, ANNA)]])


def test_photograph_without_a_date_beside_a_dated_one_is_accepted(command: ReadCommand) -> None:
    status, documents = command.read(page("2026-02-24", ANNA), page(None, ANNA))
    assert (
        [each["problems"] for each in all_days(documents)],
        [each["schedule_date"] for each in all_days(documents)],
        status,
    ) == (
        [[], []],
        ["2026-02-24", None],
        0,
    )


def test_note_is_printed_and_does_not_change_the_exit_status(command: ReadCommand) -> None:
    odd = "'Fredag 24 februari 2026': 2026-02-24 is a Tuesday"
    seen = RecognisedDay("2026-02-24", (ANNA,), (), shows_day_start=True, shows_day_end=True, notes=(odd,))
    status, documents = command.read(seen)
    assert (all_days(documents)[0]["problems"], all_days(documents)[0]["notes"], status) == ([], [odd], 0)
    assert f"note  {odd}" in command.run(seen)[1]


def test_photographs_of_several_days_can_be_read_together(command: ReadCommand) -> None:
    status, documents = command.read(page("2026-02-24", ANNA), page("2026-02-25", ANNA))
    assert ([each["problems"] for each in all_days(documents)], status) == ([[], []], 0)


def test_problem_is_listed_with_its_photograph_and_sets_exit_status_1(command: ReadCommand) -> None:
    status, documents = command.read(page(None, ANNA, problems=("barely legible",)), page("2026-02-24", ANNA))
    assert ([each["problems"] for each in all_days(documents)], status) == ([["barely legible"], []], 1)


WEEK = (page("2026-02-24", ANNA), page("2026-02-25"), page("2026-02-26", ANNA, ends=False))


def test_every_day_of_a_photograph_is_printed_with_its_completeness(command: ReadCommand) -> None:
    status, (documents,) = command.read(WEEK)
    assert [
        (day["schedule_date"], day["is_whole"], len(day["shifts"]), day["problems"]) for day in documents["days"]
    ] == [
        ("2026-02-24", True, 1, []),
        ("2026-02-25", False, 0, []),
        ("2026-02-26", False, 1, []),
    ]
    assert status == 0


def test_several_days_are_printed_below_their_file_and_one_day_beside_it(command: ReadCommand) -> None:
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


def test_problem_of_one_day_sets_exit_status_1(command: ReadCommand) -> None:
    status, documents = command.read((page("2026-02-24", ANNA), page("2026-02-25", ANNA, problems=("barely legible",))))
    assert ([day["problems"] for day in all_days(documents)], status) == ([[], ["barely legible"]], 1)
    status, documents = command.read((page("2026-02-24"), page("2026-02-25")))
    assert ([day["problems"] for day in all_days(documents)], status) == ([["no shift was recognised"]] * 2, 1)
