"""`duly ingest`: capture a day, list, compare, rebuild; and what it prints when no worker runs."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from duly import extras
from duly.apps.ingest.diff import replay
from duly.apps.ingest.shift import shift_from_json
from duly.errors import InvalidArgument, MissingExtra, NotFound, NotMigrated
from duly.launcher import ROOT
from duly.verify import check
from tests.support.actions import Admin
from tests.support.command_line import CommandLine
from tests.support.fixtures import admin, database
from tests.support.processes import Program

__all__ = ["admin", "database"]

Json = dict[str, Any]
SAMPLE = ROOT / "fixtures" / "sample_schedule.json"
PICTURES = ROOT / "tests" / "support" / "ocr" / "pictures"
DAY = "2026-02-10"
EVENING = {"start": "18:00", "end": "20:00", "title": "Anna Svensson • Städning", "address": "Storgatan 12 B, Göteborg"}
MORNING = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}


class IngestCommandLine(CommandLine):
    """The command line, with days in files and workers that process them."""

    def start_worker(self, **more: str) -> Program:
        """Start a worker for sessions, which prints what it does."""
        return self.start("worker", "--only", "ingest", WORKER_POLL_SECONDS="0.1", OCR_IMAGE_SECONDS="500", **more)

    def write_day(self, *entries: Mapping[str, Any], on: str = DAY) -> Path:
        """Write a day to a file."""
        file = self.directory / f"{uuid4()}.json"
        file.write_text(json.dumps({"schedule_date": on, "entries": list(entries)}))
        return file

    def create_session(self, *entries: Mapping[str, Any], user: object = 42) -> str:
        """Create a session that waits for a worker; return its id."""
        day = self.write_day(*entries)
        return self.json("ingest", "capture", "--fixture", day, "--user", user, "--wait", 0)["id"]


@pytest.fixture
def cli(admin: Admin, tmp_path: Path) -> IngestCommandLine:
    return IngestCommandLine(admin.info.dsn, tmp_path)


def add_user(admin: Admin, uid: str, telegram_id: int | None) -> None:
    """Make a user."""
    admin.execute("insert into duly.person (uid, telegram_id) values (%s, %s)", [uid, telegram_id])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold an object"),
        ("{}", "schedule_date: must be a day"),
        ('{"schedule_date": "2026-02-10", "entries": [{"start": "x"}]}', "entries[0].start: must be a time"),
        ("[" * 100_000, "is not JSON"),
        (" " * 1_048_577, "which is too much for a day"),
    ],
    ids=["half", "list", "empty", "time", "deep", "large"],
)
def test_fixture_that_is_not_a_valid_day_is_refused_at_once(
    text: str, arguments: str, admin: Admin, cli: IngestCommandLine
) -> None:
    file = cli.directory / "day.json"
    file.write_text(text)
    refusal = cli.error("ingest", "capture", "--fixture", file, "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert "day.json: " in str(refusal)
    assert arguments in str(refusal)
    ((rows,),) = admin.execute("select count(*) from schedule_ingest.capture_session").fetchall()
    assert rows == 0


def test_missing_file_is_a_usage_error(cli: IngestCommandLine) -> None:
    for path in (cli.directory / "nowhere.json", cli.directory):
        refused = cli.run("ingest", "capture", "--fixture", path, "--user", 42)
        assert (refused.exit_code, "--fixture" in refused.stderr) == (2, True)
    assert cli.run("ingest", "capture", "--fixture", SAMPLE).exit_code == 2
    assert cli.run("ingest", "capture", "--fixture", SAMPLE, "--user", 42, "--wait", -1).exit_code == 2


def test_invalid_photograph_is_refused_before_a_session_is_created(admin: Admin, cli: IngestCommandLine) -> None:
    refusal = cli.error("ingest", "capture", PICTURES / "before.jpg", SAMPLE, "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert str(refusal).startswith(f"{SAMPLE}: the file is not a readable image")
    assert "at most 50" in str(cli.error("ingest", "capture", *[PICTURES / "before.jpg"] * 51, "--user", 42))
    for arguments in ([], [PICTURES / "before.jpg", "--fixture", SAMPLE]):
        refused = cli.run("ingest", "capture", *arguments, "--user", 42)
        assert refused.exit_code == 2
    ((rows,),) = admin.execute("select count(*) from schedule_ingest.capture_session").fetchall()
    assert rows == 0


def test_waiting_for_a_photograph_without_an_ocr_engine_fails_at_once(
    admin: Admin, cli: IngestCommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "is_checkout", lambda: False)
    for module in extras.MODULES["ocr"]:
        monkeypatch.setitem(sys.modules, module, None)
    refusal = cli.error("ingest", "capture", PICTURES / "before.jpg", "--user", 42)
    assert isinstance(refusal, MissingExtra)
    assert "pip install 'duly[ocr]'; or, where a worker on another machine reads" in str(refusal)
    query = "select count(*) from schedule_ingest.capture_session"
    assert admin.execute(query).fetchone() == (0,)
    assert cli.output("ingest", "capture", PICTURES / "before.jpg", "--user", 42, "--wait", 0).startswith("created ")
    assert admin.execute(query).fetchone() == (1,)


# Whose ----------------------------------------------------------------------------------------------------------------


def test_user_option_accepts_a_uid_or_a_telegram_id(admin: Admin, cli: IngestCommandLine) -> None:
    add_user(admin, "anna", 42)
    add_user(admin, "7", 70)  # a uid may look like a number
    add_user(admin, "cia", None)
    by_uid, by_number, other = (cli.create_session(MORNING, user=user) for user in ("anna", 42, 7))
    assert {each["id"] for each in cli.json("ingest", "list", "--user", "anna")["items"]} == {by_uid, by_number}
    assert [each["id"] for each in cli.json("ingest", "list", "--user", 70)["items"]] == [other]
    without = cli.error("ingest", "list", "--user", "cia")
    assert isinstance(without, InvalidArgument)
    assert "duly people set cia --telegram-id N" in str(without)
    for unknown_user in ("dan", "\udcff", "0", "-5", str(2**63), "4 2", "9" * 5000):
        assert isinstance(cli.error("ingest", "list", f"--user={unknown_user}"), NotFound)
    changed = cli.run("people", "set", "cia", "--telegram-id", 71)
    assert changed.exit_code == 0
    assert cli.json("ingest", "list", "--user", "cia") == {"items": [], "next": None}


# Saying no ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["day", "versions", "events", "notifications", "replay"])
def test_invalid_date_is_refused_and_an_unknown_day_is_not_found(verb: str, cli: IngestCommandLine) -> None:
    refusal = cli.error("ingest", verb, "10.2.2026", "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert "DATE: must be a day such as 2026-02-10" in str(refusal)
    if verb in ("day", "replay"):
        assert "nothing is known of 2026-02-10" in str(cli.error("ingest", verb, DAY, "--user", 42))
    else:
        assert cli.json("ingest", verb, DAY, "--user", 42) == {"items": [], "next": None}


def test_database_without_tables_is_reported_with_duly_migrate(database: str, cli: IngestCommandLine) -> None:
    empty = CommandLine(make_conninfo(database, dbname="postgres"), cli.directory)
    for arguments in (["list", "--user", "42"], ["show", uuid4()], ["explain", uuid4()]):
        refusal = empty.error("ingest", *arguments)
        assert isinstance(refusal, NotMigrated)
        assert "duly migrate" in str(refusal)


def test_capture_without_a_worker_prints_how_to_run_one(cli: IngestCommandLine) -> None:
    arguments = ["ingest", "capture", "--fixture", SAMPLE, "--user", 42]
    result = cli.run(*arguments, "--wait", 0.2)
    assert result.exit_code == 1
    given, waits = result.stdout.splitlines()
    assert given.startswith("created ")
    assert waits.startswith("waits     It is complete since ")
    assert waits.endswith("no worker is alive that claims sessions; start one: duly worker --only ingest.")
    printed = cli.run(*arguments, "--wait", 0, "--json")
    assert (printed.exit_code, json.loads(printed.stdout)["state"]) == (0, "pending")
    cli.run_worker("ingest")
    cli.run_worker("ingest")
    assert [each["state"] for each in cli.json("ingest", "list", "--user", 42)["items"]] == ["done", "done"]


def test_day_versions_diff_events_and_notifications_are_printed(admin: Admin, cli: IngestCommandLine) -> None:
    first = cli.create_session(MORNING)
    cli.run_worker("ingest")
    second = cli.create_session({**MORNING, "start": "11:00"}, EVENING)
    cli.run_worker("ingest")
    about = (DAY, "--user", 42)
    known = cli.json("ingest", "day", *about)
    assert (known["current_version"], known["source_session_id"], len(known["snapshot_payload"])) == (2, second, 2)
    head, *shifts = cli.output("ingest", "day", *about).splitlines()
    assert re.match(r"2026-02-10  version 2, last captured 20", head)
    assert shifts == [
        "  11:00\N{EN DASH}14:00  Cleaning, Billdal",
        "  18:00\N{EN DASH}20:00  Anna Svensson, Städning, Storgatan 12B, Göteborg",
    ]
    versions = cli.json("ingest", "versions", *about)["items"]
    assert [(each["version"], each["session_id"]) for each in versions] == [(1, first), (2, second)]
    assert all("payload" not in each for each in versions)
    head, *rows = cli.output("ingest", "versions", *about).splitlines()
    assert head.split() == ["version", "created_at", "session_id", "payload_hash"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    events = cli.json("ingest", "events", *about)["items"]
    assert [each["event_type"] for each in events] == ["shift_added", "shift_time_changed", "shift_added"]
    rebuilt = replay((each["old_value"], each["new_value"]) for each in events)
    assert rebuilt == [shift_from_json(each) for each in known["snapshot_payload"]]
    assert (
        cli.output("ingest", "events", *about)
        .splitlines()[2]
        .endswith("The 10:00\N{EN DASH}14:00 shift on 2026-02-10 (Cleaning, Billdal) now starts at 11:00.")
    )
    page = cli.json("ingest", "events", *about, "--limit", 1)
    assert [each["seq"] for each in cli.json("ingest", "events", *about, "--cursor", page["next"])["items"]] == [2, 3]
    assert "more      --cursor " in cli.output("ingest", "versions", *about, "--limit", 1)
    messages = cli.json("ingest", "notifications", *about)["items"]
    assert [(each["status"], each["notification_type"]) for each in messages] == [("pending", "event")] * 3
    assert cli.output("ingest", "notifications", *about).splitlines()[1].endswith(messages[0]["message"])
    assert check(admin, ("duly", "schedule_ingest")) == []


@pytest.mark.breaks_invariants
def test_replay_rebuilds_a_day_from_its_events_and_prints_a_difference(admin: Admin, cli: IngestCommandLine) -> None:
    for entries in ([MORNING], [EVENING], [MORNING], [EVENING]):
        cli.create_session(*entries)
        cli.run_worker("ingest")
    about = ("replay", DAY, "--user", 42)
    assert cli.output("ingest", *about) == "same      2026-02-10: 7 events rebuild the stored day, 1 shift\n"
    printed = cli.json("ingest", *about)
    assert (printed["is_same"], printed["events"], printed["shifts"]) == (True, 7, printed["known"])
    with admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute("update schedule_ingest.day_snapshot set snapshot_payload = '[]'")
    other = cli.run("ingest", *about)
    assert other.exit_code == 1
    assert other.stdout.splitlines() == [
        "differs   2026-02-10: 7 events rebuild 1 shift, stored are 0 shifts",
        "  + 18:00\N{EN DASH}20:00  Anna Svensson, Städning, Storgatan 12B, Göteborg",
    ]
    with admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute("delete from schedule_ingest.schedule_event where seq = 1")
    broken = cli.run("ingest", *about, "--json")
    assert (broken.exit_code, json.loads(broken.stdout)["shifts"]) == (1, None)
    assert "changes a shift that did not exist" in cli.run("ingest", *about).stdout


def test_session_is_printed_with_images_timeline_and_explanation(admin: Admin, cli: IngestCommandLine) -> None:
    key = cli.create_session(MORNING)
    assert cli.output("ingest", "explain", key).startswith("It is complete since ")
    cli.run_worker("ingest")
    shown = cli.json("ingest", "show", key)
    assert (shown["state"], shown["images"], shown["result"]["outcome"]) == ("done", [], "changed")
    text = dict(line.split(maxsplit=1) for line in cli.output("ingest", "show", key).splitlines())
    assert (text["id"], text["state"], text["user_id"]) == (key, "done", "42")
    log = cli.json("ingest", "timeline", key)
    assert [each["next_status"] for each in log] == ["pending", "processing", "done"]
    head, *_ = cli.output("ingest", "timeline", key).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    reason = cli.json("ingest", "explain", key)
    assert (reason["reason"], reason["observed_at"].endswith("+00:00")) == ("done", True)
    ((waiting,),) = admin.execute(
        "insert into schedule_ingest.capture_session (user_id) values (42) returning id::text"
    ).fetchall()
    admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, 1, 'screenshots/x.png')",
        [waiting],
    )
    assert [each["r2_key"] for each in cli.json("ingest", "show", waiting)["images"]] == ["screenshots/x.png"]
    assert re.search(r"^image +1  screenshots/x\.png  20", cli.output("ingest", "show", waiting), re.MULTILINE)
    assert cli.json("ingest", "explain", waiting)["reason"] == "open"
    page = cli.json("ingest", "list", "--user", 42, "--limit", 1)
    assert [each["id"] for each in page["items"]] == [waiting]
    head, row = cli.output("ingest", "list", "--user", 42, "--cursor", page["next"]).splitlines()
    assert head.split() == ["id", "state", "created_at", "closed_at", "outcome", "schedule_date", "version", "error"]
    assert row.split()[0] == key
    assert row.split()[-4:] == ["changed", DAY, "1", "-"]


def test_control_characters_in_stored_text_are_replaced(admin: Admin, cli: IngestCommandLine) -> None:
    cli.create_session({**MORNING, "title": "Anna \x1b[31mRed • Städning", "location": "Bill\x07dal"})
    cli.run_worker("ingest")
    for arguments in (["day"], ["events"], ["notifications"], ["diff", 0, 1]):
        printed_text = cli.output("ingest", arguments[0], DAY, *arguments[1:], "--user", 42)
        assert "\x1b" not in printed_text
        assert "\x07" not in printed_text
        assert "\N{REPLACEMENT CHARACTER}" in printed_text
