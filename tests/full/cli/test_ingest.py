"""`duly ingest`: capture a day, list, compare, rebuild; and what it prints when no worker runs."""

import json
import os
import re
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from duly.errors import NotFound
from duly.verify import check
from tests.fast.cli.test_ingest import (
    DAY,
    EVENING,
    MORNING,
    PICTURES,
    SAMPLE,
    Admin,
    IngestCommandLine,
    admin,
    cli,
    database,
)
from tests.support.command_line import DULY
from tests.support.ocr.days import AFTER
from tests.support.processes import plain_environment
from tests.support.terminal import TerminalProgram

__all__ = ["admin", "cli", "database"]


# Giving a day ---------------------------------------------------------------------------------------------------------


def test_ingest_capture_of_a_fixture_prints_its_changes(admin: Admin, cli: IngestCommandLine) -> None:
    with cli.start_worker():
        first = cli.output("ingest", "capture", "--fixture", SAMPLE, "--user", 42).splitlines()
        assert re.fullmatch(r"created   [0-9a-f-]{36}", first[0])
        assert first[1:] == [
            "done      2026-02-10 has version 1, 1 event and 1 message, from the data given with it",
            "  + New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Cleaning, Billdal.",
        ]
        again = cli.output("ingest", "capture", "--fixture", SAMPLE, "--user", 42).splitlines()
        assert again[1:] == ["done      2026-02-10 is unchanged, version 1, according to the data given with it"]
        changed = cli.write_day({**MORNING, "start": "11:00"}, EVENING)
        printed = cli.json("ingest", "capture", "--fixture", changed, "--user", 42)
        assert (printed["state"], printed["user_id"], printed["result"]["version"]) == ("done", 42, 2)
        assert [(each["type"], each["sentence"]) for each in printed["changes"]] == [
            (
                "shift_time_changed",
                "The 10:00\N{EN DASH}14:00 shift on 2026-02-10 (Cleaning, Billdal) now starts at 11:00.",
            ),
            (
                "shift_added",
                "New shift on 2026-02-10: 18:00\N{EN DASH}20:00, Anna Svensson • Städning, Storgatan 12B, Göteborg.",
            ),
        ]
        assert printed["explanation"].startswith("It is done: ")
    assert check(admin, ("duly", "schedule_ingest")) == []


def test_ingest_capture_of_a_failed_session_exits_with_1(admin: Admin, cli: IngestCommandLine) -> None:
    with cli.start("ingest", "capture", "--fixture", SAMPLE, "--user", 42) as program:
        program.line()
        admin.execute("update schedule_ingest.capture_session set state = 'failed', error = 'The file is torn.'")
        assert program.line() == "failed    The file is torn."
        assert program.finish() == 1


# Giving photographs ---------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_ingest_capture_of_a_photograph_prints_its_changes(cli: IngestCommandLine) -> None:
    with cli.start_worker():
        given, done, *changes = cli.output(
            "ingest", "capture", PICTURES / "before.jpg", "--user", 42, "--wait", 500
        ).splitlines()
    assert re.fullmatch(r"created   [0-9a-f-]{36}", given)
    assert done == (
        "done      2026-03-17 has version 1, 3 events and 1 message, from its photographs; "
        "note: 'Onsdag 17 mars 2026': 2026-03-17 is a Tuesday"
    )
    assert changes[0] == "  + New shift on 2026-03-17: 07:30\N{EN DASH}09:00, Åke Öberg • Hemstädning, Åby."
    shown = cli.json("ingest", "show", given.split()[1])
    assert shown["result"]["input"] == "ocr"
    assert [image["sequence"] for image in shown["images"]] == [1]


@pytest.mark.timeout(600)
def test_ingest_capture_shows_its_progress_on_a_terminal(cli: IngestCommandLine) -> None:
    day = cli.directory / "day.json"
    os.mkfifo(day)  # reading it blocks until it is written
    images = [str(PICTURES / name) for name in ("before.jpg", "after.jpg")]
    environment = plain_environment(**cli.environment, TERM="xterm", NO_COLOR="1", COLUMNS="160")
    with TerminalProgram(
        [*DULY, "ingest", "capture", *images, "--user", "42", "--wait", "500"], environment
    ) as terminal:
        for arguments in ("uploading before.jpg", "uploading after.jpg", "created ", "waiting for a worker"):
            terminal.read_until(arguments)
        with cli.start_worker(WORKER_INPUT_MODE="fixture", FIXTURE_PAYLOAD_PATH=str(day)):
            terminal.read_until("processed by a worker")
            assert "done  " not in terminal.output
            day.write_text(SAMPLE.read_text())
            printed = terminal.read_until("New shift on 2026-02-10: 10:00")
            assert terminal.process.wait(60) == 0
    positions = [printed.index(f"{nth}/4") for nth in range(4)]
    assert positions == sorted(positions)
    assert "done      2026-02-10 has version 1, 1 event and 1 message" in printed


@pytest.mark.timeout(600)
def test_ingest_read_needs_no_database(tmp_path: Path) -> None:
    arguments = [*DULY, "ingest", "read", PICTURES / "after.jpg", SAMPLE, "--json"]
    environment = plain_environment(
        DATABASE_URL="postgresql://nowhere.invalid/x", DULY_HOME=str(tmp_path / "none"), OCR_IMAGE_SECONDS="500"
    )
    read = subprocess.run([str(argument) for argument in arguments], env=environment, capture_output=True, text=True)
    assert read.returncode == 1, read.stderr
    picture, sample = json.loads(read.stdout)
    assert list(picture) == list(sample) == ["file", "days"]
    (shown,), (nothing,) = picture["days"], sample["days"]
    assert list(shown) == list(nothing) == ["schedule_date", "is_whole", "shifts", "problems", "notes"]
    assert (picture["file"], shown["schedule_date"], shown["problems"]) == (
        str(PICTURES / "after.jpg"),
        "2026-03-17",
        [],
    )
    assert [[*shift] for shift in shown["shifts"]] == [
        ["start", "end", "title", "customer", "location", "confidence"]
    ] * 4
    assert [tuple(shift.values())[:5] for shift in shown["shifts"]] == AFTER
    assert (sample["file"], nothing["shifts"], len(nothing["problems"])) == (str(SAMPLE), [], 1)
    assert not (tmp_path / "none").exists()


# Looking --------------------------------------------------------------------------------------------------------------


def test_ingest_diff_prints_changes_as_coloured_sentences(cli: IngestCommandLine) -> None:
    for entries in ([MORNING, EVENING], [{**MORNING, "start": "11:00"}]):
        cli.create_session(*entries)
        cli.run_worker("ingest")
    printed_text = cli.process("ingest", "diff", DAY, 1, 2, "--user", 42)
    assert printed_text.returncode == 0
    assert printed_text.stdout.splitlines() == [
        "2026-02-10  version 1 → 2: 2 changes",
        "  ~ The 10:00\N{EN DASH}14:00 shift on 2026-02-10 (Cleaning, Billdal) now starts at 11:00.",
        "        start: 10:00 → 11:00",
        "  - Shift removed on 2026-02-10: 18:00\N{EN DASH}20:00, Anna Svensson • Städning, Storgatan 12B, Göteborg.",
    ]
    environment = plain_environment(**cli.environment, FORCE_COLOR="1", TERM="xterm-256color")
    arguments = [*DULY, "ingest", "diff", DAY, "1", "2", "--user", "42"]
    coloured = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout
    assert "\x1b[33m  ~ The 10:00" in coloured
    assert "\x1b[31m  - Shift removed" in coloured
    back = cli.json("ingest", "diff", DAY, 2, 1, "--user", 42)
    assert [each["type"] for each in back] == ["shift_time_changed", "shift_added"]
    assert (back[0]["old"]["start"], back[0]["new"]["start"], back[1]["old"]) == ("11:00", "10:00", None)
    from_nothing = cli.json("ingest", "diff", DAY, 0, 1, "--user", 42)
    assert [each["type"] for each in from_nothing] == ["shift_added", "shift_added"]
    assert cli.output("ingest", "diff", DAY, 2, 2, "--user", 42) == "2026-02-10  version 2 → 2: 0 changes\n"
    assert "there is no version 3 of 2026-02-10" in str(cli.error("ingest", "diff", DAY, 1, 3, "--user", 42))
    assert cli.run("ingest", "diff", DAY, -1, 3, "--user", 42).exit_code == 2


def test_ingest_commands_report_an_unknown_session(cli: IngestCommandLine) -> None:
    for verb in ("show", "timeline", "explain"):
        assert isinstance(cli.error("ingest", verb, uuid4()), NotFound)
        assert cli.run("ingest", verb, "nonsense").exit_code == 2
    refused = cli.process("ingest", "show", uuid4(), "--json")
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (2, "NOT_FOUND")
