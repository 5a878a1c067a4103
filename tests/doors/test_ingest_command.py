"""`duly ingest` through its door: give a day, look, compare, rebuild; and what it says when nobody works."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly import extras
from duly.errors import InvalidArgument, MissingExtra, NotFound, NotMigrated
from duly.ingest.diff import replay
from duly.ingest.shift import read_shift
from duly.launcher import ROOT
from duly.testing import install_test_clock
from duly.verify import check
from tests.eyes.days import AFTER
from tests.support import door as shared
from tests.support.door import DULY
from tests.support.processes import Program, plain_environment
from tests.support.terminal import Watched

Json = dict[str, Any]
Admin = psycopg.Connection[Any]
SAMPLE = ROOT / "fixtures" / "sample_schedule.json"
PICTURES = ROOT / "tests" / "eyes" / "pictures"
DAY = "2026-02-10"
MORNING = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}
EVENING = {"start": "18:00", "end": "20:00", "title": "Anna Svensson • Städning", "address": "Storgatan 12 B, Göteborg"}


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """The test's own hand."""
    with psycopg.connect(database, autocommit=True) as connection:
        install_test_clock(connection)
        yield connection


class Door(shared.Door):
    """The command line, and a worker as a process."""

    def worker(self, **more: str) -> Program:
        """A worker for sessions, which says on its output what it does."""
        return self.start("worker", "--only", "ingest", WORKER_POLL_SECONDS="0.1", OCR_IMAGE_SECONDS="500", **more)

    def write(self, *entries: Mapping[str, Any], on: str = DAY) -> Path:
        """A file with a day in it."""
        file = self.directory / f"{uuid4()}.json"
        file.write_text(json.dumps({"schedule_date": on, "entries": list(entries)}))
        return file

    def give(self, *entries: Mapping[str, Any], user: object = 42) -> str:
        """A session that waits for a worker."""
        words = ["capture", "--fixture", self.write(*entries), "--user", user, "--wait", 0]
        return self.tell(*words)["id"]

    def work(self) -> None:
        """One cycle of a worker for one session, as the contract's own command does it."""
        done = self.process("worker", "--only", "ingest", "--once")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def door(admin: Admin, tmp_path: Path) -> Door:
    return Door(admin.info.dsn, tmp_path, "ingest")


def know(admin: Admin, uid: str, telegram_id: int | None) -> None:
    """Make a person."""
    admin.execute('insert into "user".users (uid, telegram_id) values (%s, %s)', [uid, telegram_id])


# Giving a day ---------------------------------------------------------------------------------------------------------


def test_a_day_is_given_seen_by_a_worker_and_told(admin: Admin, door: Door) -> None:
    with door.worker():
        first = door.say("capture", "--fixture", SAMPLE, "--user", 42).splitlines()
        assert re.fullmatch(r"given     [0-9a-f-]{36}", first[0])
        assert first[1:] == [
            "done      2026-02-10 has version 1, 1 event and 1 message, from the data that came with it",
            "  + New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Billdal.",
        ]
        again = door.say("capture", "--fixture", SAMPLE, "--user", 42).splitlines()
        assert again[1:] == ["done      2026-02-10 is as it was, version 1, says the data that came with it"]
        changed = door.write({**MORNING, "start": "11:00"}, EVENING)
        told = door.tell("capture", "--fixture", changed, "--user", 42)
        assert (told["state"], told["user_id"], told["result"]["version"]) == ("done", 42, 2)
        assert [(each["type"], each["sentence"]) for each in told["changes"]] == [
            ("shift_time_changed", "Shift on 2026-02-10, Billdal: 10:00 → 11:00."),
            ("shift_added", "New shift on 2026-02-10: 18:00\N{EN DASH}20:00, Göteborg."),
        ]
        assert told["explanation"].startswith("It is done: ")
    assert check(admin, ("duly", "schedule_ingest")) == []


def test_without_a_worker_it_says_so_and_how_to_run_one(door: Door) -> None:
    words = ["ingest", "capture", "--fixture", SAMPLE, "--user", 42]
    left = door.run(*words, "--wait", 0.2)
    assert left.exit_code == 1
    given, waits = left.stdout.splitlines()
    assert given.startswith("given ")
    assert waits.startswith("waits     It is complete since ")
    assert waits.endswith("no worker is alive that takes sessions; start one: duly worker --only ingest.")
    told = door.run(*words, "--wait", 0, "--json")
    assert (told.exit_code, json.loads(told.stdout)["state"]) == (0, "pending")
    door.work()
    door.work()
    assert [each["state"] for each in door.tell("list", "--user", 42)["items"]] == ["done", "done"]


def test_a_session_that_fails_ends_the_command_with_1(admin: Admin, door: Door) -> None:
    with door.start("ingest", "capture", "--fixture", SAMPLE, "--user", 42) as program:
        program.line()
        admin.execute("update schedule_ingest.capture_session set state = 'failed', error = 'The file is torn.'")
        assert program.line() == "failed    The file is torn."
        assert program.finish() == 1


@pytest.mark.parametrize(
    ("text", "words"),
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
def test_a_file_that_is_no_day_is_refused_at_once(text: str, words: str, admin: Admin, door: Door) -> None:
    file = door.directory / "day.json"
    file.write_text(text)
    refusal = door.refuse("capture", "--fixture", file, "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert str(refusal).startswith(f"{file}: ")
    assert words in str(refusal)
    ((rows,),) = admin.execute("select count(*) from schedule_ingest.capture_session").fetchall()
    assert rows == 0


def test_a_file_that_is_not_there_is_a_wrong_option(door: Door) -> None:
    for path in (door.directory / "nowhere.json", door.directory):
        refused = door.run("ingest", "capture", "--fixture", path, "--user", 42)
        assert (refused.exit_code, "--fixture" in refused.stderr) == (2, True)
    assert door.run("ingest", "capture", "--fixture", SAMPLE).exit_code == 2
    assert door.run("ingest", "capture", "--fixture", SAMPLE, "--user", 42, "--wait", -1).exit_code == 2


# Giving photographs ---------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_a_photograph_is_given_read_by_a_worker_and_told(door: Door) -> None:
    with door.worker():
        given, done, *changes = door.say("capture", PICTURES / "before.jpg", "--user", 42, "--wait", 500).splitlines()
    assert re.fullmatch(r"given     [0-9a-f-]{36}", given)
    assert done == "done      2026-03-17 has version 1, 3 events and 1 message, from its photographs"
    assert changes[0] == "  + New shift on 2026-03-17: 07:30\N{EN DASH}09:00, Åby."
    shown = door.tell("show", given.split()[1])
    assert shown["result"]["input"] == "ocr"
    assert [image["sequence"] for image in shown["images"]] == [1]


@pytest.mark.timeout(600)
def test_whoever_watches_sees_the_uploads_the_wait_the_reading_and_the_outcome(door: Door) -> None:
    day = door.directory / "day.json"
    os.mkfifo(day)  # who reads it waits until somebody writes
    images = [str(PICTURES / name) for name in ("before.jpg", "after.jpg")]
    environment = plain_environment(**door.environment, TERM="xterm", NO_COLOR="1", COLUMNS="160")
    with Watched([*DULY, "ingest", "capture", *images, "--user", "42", "--wait", "500"], environment) as watched:
        for words in ("uploading before.jpg", "uploading after.jpg", "given ", "waiting for a worker"):
            watched.read_until(words)
        with door.worker(WORKER_INPUT_MODE="fixture", FIXTURE_PAYLOAD_PATH=str(day)):
            watched.read_until("a worker reads it")
            assert "done  " not in watched.said
            day.write_text(SAMPLE.read_text())
            told = watched.read_until("New shift on 2026-02-10: 10:00")
            assert watched.process.wait(60) == 0
    places = [told.index(f"{nth}/4") for nth in range(4)]
    assert places == sorted(places)
    assert "done      2026-02-10 has version 1, 1 event and 1 message" in told


def test_what_is_no_photograph_is_refused_before_anything_is_given(admin: Admin, door: Door) -> None:
    refusal = door.refuse("capture", PICTURES / "before.jpg", SAMPLE, "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert str(refusal).startswith(f"{SAMPLE}: this is no photograph that we can read")
    assert "at most 50" in str(door.refuse("capture", *[PICTURES / "before.jpg"] * 51, "--user", 42))
    for words in ([], [PICTURES / "before.jpg", "--fixture", SAMPLE]):
        refused = door.run("ingest", "capture", *words, "--user", 42)
        assert refused.exit_code == 2
    ((rows,),) = admin.execute("select count(*) from schedule_ingest.capture_session").fetchall()
    assert rows == 0


def test_who_waits_for_a_photograph_where_nothing_can_read_it_is_told_so_at_once(
    admin: Admin, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "in_checkout", lambda: False)
    for module in extras.MODULES["ocr"]:
        monkeypatch.setitem(sys.modules, module, None)
    refusal = door.refuse("capture", PICTURES / "before.jpg", "--user", 42)
    assert isinstance(refusal, MissingExtra)
    assert "pip install 'duly[ocr]'; or, where a worker on another machine reads" in str(refusal)
    asked = "select count(*) from schedule_ingest.capture_session"
    assert admin.execute(asked).fetchone() == (0,)
    assert door.say("capture", PICTURES / "before.jpg", "--user", 42, "--wait", 0).startswith("given ")
    assert admin.execute(asked).fetchone() == (1,)


@pytest.mark.timeout(600)
def test_photographs_are_read_without_a_database(tmp_path: Path) -> None:
    words = [*DULY, "ingest", "read", PICTURES / "after.jpg", SAMPLE, "--json"]
    environment = plain_environment(
        DATABASE_URL="postgresql://nowhere.invalid/x", DULY_HOME=str(tmp_path / "none"), OCR_IMAGE_SECONDS="500"
    )
    read = subprocess.run([str(word) for word in words], env=environment, capture_output=True, text=True)
    assert read.returncode == 1, read.stderr
    picture, sample = json.loads(read.stdout)
    assert list(picture) == list(sample) == ["file", "schedule_date", "shifts", "problems"]
    assert (picture["file"], picture["schedule_date"], picture["problems"]) == (
        str(PICTURES / "after.jpg"),
        "2026-03-17",
        [],
    )
    assert [[*shift] for shift in picture["shifts"]] == [
        ["start", "end", "title", "customer", "location", "confidence"]
    ] * 4
    assert [tuple(shift.values())[:5] for shift in picture["shifts"]] == AFTER
    assert (sample["file"], sample["shifts"], len(sample["problems"])) == (str(SAMPLE), [], 1)
    assert not (tmp_path / "none").exists()


# Whose ----------------------------------------------------------------------------------------------------------------


def test_a_person_is_named_by_uid_or_by_telegram_id(admin: Admin, door: Door) -> None:
    know(admin, "anna", 42)
    know(admin, "7", 70)  # a uid may look like a number
    know(admin, "cia", None)
    by_uid, by_number, other = (door.give(MORNING, user=user) for user in ("anna", 42, 7))
    assert {each["id"] for each in door.tell("list", "--user", "anna")["items"]} == {by_uid, by_number}
    assert [each["id"] for each in door.tell("list", "--user", 70)["items"]] == [other]
    without = door.refuse("list", "--user", "cia")
    assert isinstance(without, InvalidArgument)
    assert "duly users set cia --telegram-id N" in str(without)
    for nobody in ("dan", "\udcff", "0", "-5", str(2**63), "4 2", "9" * 5000):
        assert isinstance(door.refuse("list", f"--user={nobody}"), NotFound)
    changed = door.run("users", "set", "cia", "--telegram-id", 71)
    assert changed.exit_code == 0
    assert door.tell("list", "--user", "cia") == {"items": [], "next": None}


# Looking --------------------------------------------------------------------------------------------------------------


def test_a_day_its_versions_changes_events_and_messages_are_shown(admin: Admin, door: Door) -> None:
    first = door.give(MORNING)
    door.work()
    second = door.give({**MORNING, "start": "11:00"}, EVENING)
    door.work()
    about = (DAY, "--user", 42)
    known = door.tell("day", *about)
    assert (known["current_version"], known["source_session_id"], len(known["snapshot_payload"])) == (2, second, 2)
    head, *shifts = door.say("day", *about).splitlines()
    assert re.match(r"2026-02-10  version 2, last looked at 20", head)
    assert shifts == [
        "  11:00\N{EN DASH}14:00  Cleaning, Billdal",
        "  18:00\N{EN DASH}20:00  Anna Svensson, Städning, Storgatan 12B, Göteborg",
    ]
    versions = door.tell("versions", *about)["items"]
    assert [(each["version"], each["session_id"]) for each in versions] == [(1, first), (2, second)]
    assert all("payload" not in each for each in versions)
    head, *rows = door.say("versions", *about).splitlines()
    assert head.split() == ["version", "created_at", "session_id", "payload_hash"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    events = door.tell("events", *about)["items"]
    assert [each["event_type"] for each in events] == ["shift_added", "shift_time_changed", "shift_added"]
    rebuilt = replay((each["old_value"], each["new_value"]) for each in events)
    assert rebuilt == [read_shift(each) for each in known["snapshot_payload"]]
    assert (
        door.say("events", *about)
        .splitlines()[2]
        .endswith("shift_time_changed  Shift on 2026-02-10, Billdal: 10:00 → 11:00.")
    )
    page = door.tell("events", *about, "--limit", 1)
    assert [each["seq"] for each in door.tell("events", *about, "--place", page["next"])["items"]] == [2, 3]
    assert "more      --place " in door.say("versions", *about, "--limit", 1)
    messages = door.tell("notifications", *about)["items"]
    assert [(each["status"], each["notification_type"]) for each in messages] == [("pending", "event")] * 3
    assert door.say("notifications", *about).splitlines()[1].endswith(messages[0]["message"])
    assert check(admin, ("duly", "schedule_ingest")) == []


def test_two_versions_are_compared_in_words_and_colours(door: Door) -> None:
    for entries in ([MORNING, EVENING], [{**MORNING, "start": "11:00"}]):
        door.give(*entries)
        door.work()
    said = door.process("ingest", "diff", DAY, 1, 2, "--user", 42)
    assert said.returncode == 0
    assert said.stdout.splitlines() == [
        "2026-02-10  version 1 → 2: 2 changes",
        "  ~ Shift on 2026-02-10, Billdal: 10:00 → 11:00.",
        "        start: 10:00 → 11:00",
        "  - Shift removed on 2026-02-10: 18:00\N{EN DASH}20:00, Göteborg.",
    ]
    environment = plain_environment(**door.environment, FORCE_COLOR="1", TERM="xterm-256color")
    words = [*DULY, "ingest", "diff", DAY, "1", "2", "--user", "42"]
    coloured = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert "\x1b[33m  ~ Shift on" in coloured
    assert "\x1b[31m  - Shift removed" in coloured
    back = door.tell("diff", DAY, 2, 1, "--user", 42)
    assert [each["type"] for each in back] == ["shift_time_changed", "shift_added"]
    assert (back[0]["old"]["start"], back[0]["new"]["start"], back[1]["old"]) == ("11:00", "10:00", None)
    from_nothing = door.tell("diff", DAY, 0, 1, "--user", 42)
    assert [each["type"] for each in from_nothing] == ["shift_added", "shift_added"]
    assert door.say("diff", DAY, 2, 2, "--user", 42) == "2026-02-10  version 2 → 2: 0 changes\n"
    assert "there is no version 3 of 2026-02-10" in str(door.refuse("diff", DAY, 1, 3, "--user", 42))
    assert door.run("ingest", "diff", DAY, -1, 3, "--user", 42).exit_code == 2


@pytest.mark.lawless
def test_a_day_is_rebuilt_from_its_events_and_a_difference_is_told(admin: Admin, door: Door) -> None:
    for entries in ([MORNING], [EVENING], [MORNING], [EVENING]):
        door.give(*entries)
        door.work()
    about = ("replay", DAY, "--user", 42)
    assert door.say(*about) == "same      2026-02-10: 7 events rebuild the day as it is known, 1 shift\n"
    told = door.tell(*about)
    assert (told["is_same"], told["events"], told["shifts"]) == (True, 7, told["known"])
    with admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute("update schedule_ingest.day_snapshot set snapshot_payload = '[]'")
    other = door.run("ingest", *about)
    assert other.exit_code == 1
    assert other.stdout.splitlines() == [
        "differs   2026-02-10: 7 events rebuild 1 shift, known are 0 shifts",
        "  + 18:00\N{EN DASH}20:00  Anna Svensson, Städning, Storgatan 12B, Göteborg",
    ]
    with admin.transaction():
        admin.execute("set local session_replication_role = replica")
        admin.execute("delete from schedule_ingest.schedule_event where seq = 1")
    broken = door.run("ingest", *about, "--json")
    assert (broken.exit_code, json.loads(broken.stdout)["shifts"]) == (1, None)
    assert "changes a shift that was not there" in door.run("ingest", *about).stdout


def test_a_session_is_shown_with_its_images_its_log_and_its_reason(admin: Admin, door: Door) -> None:
    key = door.give(MORNING)
    assert door.say("explain", key).startswith("It is complete since ")
    door.work()
    shown = door.tell("show", key)
    assert (shown["state"], shown["images"], shown["result"]["outcome"]) == ("done", [], "changed")
    text = dict(line.split(maxsplit=1) for line in door.say("show", key).splitlines())
    assert (text["id"], text["state"], text["user_id"]) == (key, "done", "42")
    log = door.tell("timeline", key)
    assert [each["next_status"] for each in log] == ["pending", "processing", "done"]
    head, *_ = door.say("timeline", key).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    reason = door.tell("explain", key)
    assert (reason["reason"], reason["looked_at"].endswith("+00:00")) == ("done", True)
    ((waiting,),) = admin.execute(
        "insert into schedule_ingest.capture_session (user_id) values (42) returning id::text"
    ).fetchall()
    admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key) values (%s, 1, 'screenshots/x.png')",
        [waiting],
    )
    assert [each["r2_key"] for each in door.tell("show", waiting)["images"]] == ["screenshots/x.png"]
    assert re.search(r"^image +1  screenshots/x\.png  20", door.say("show", waiting), re.MULTILINE)
    assert door.tell("explain", waiting)["reason"] == "open"
    page = door.tell("list", "--user", 42, "--limit", 1)
    assert [each["id"] for each in page["items"]] == [waiting]
    head, row = door.say("list", "--user", 42, "--place", page["next"]).splitlines()
    assert head.split() == ["id", "state", "created_at", "closed_at", "outcome", "schedule_date", "version", "error"]
    assert row.split()[0] == key
    assert row.split()[-4:] == ["changed", DAY, "1", "-"]


def test_what_a_stranger_wrote_does_not_move_the_terminal(admin: Admin, door: Door) -> None:
    door.give({**MORNING, "title": "Anna \x1b[31mRed • Städning", "location": "Bill\x07dal"})
    door.work()
    for words in (["day"], ["events"], ["notifications"], ["diff", 0, 1]):
        said = door.say(words[0], DAY, *words[1:], "--user", 42)
        assert "\x1b" not in said
        assert "\x07" not in said
        assert "\N{REPLACEMENT CHARACTER}" in said


# Saying no ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["day", "versions", "events", "notifications", "replay"])
def test_a_day_that_is_none_or_of_which_nothing_is_known(verb: str, door: Door) -> None:
    refusal = door.refuse(verb, "10.2.2026", "--user", 42)
    assert isinstance(refusal, InvalidArgument)
    assert "DATE: must be a day such as 2026-02-10" in str(refusal)
    if verb in ("day", "replay"):
        assert "nothing is known of 2026-02-10" in str(door.refuse(verb, DAY, "--user", 42))
    else:
        assert door.tell(verb, DAY, "--user", 42) == {"items": [], "next": None}


def test_a_session_that_is_not_there(door: Door) -> None:
    for verb in ("show", "timeline", "explain"):
        assert isinstance(door.refuse(verb, uuid4()), NotFound)
        assert door.run("ingest", verb, "nonsense").exit_code == 2
    refused = door.process("ingest", "show", uuid4(), "--json")
    assert (refused.returncode, json.loads(refused.stdout)["error"]["code"]) == (2, "NOT_FOUND")


def test_a_database_without_our_tables_says_what_to_run(database: str, door: Door) -> None:
    empty = Door(make_conninfo(database, dbname="postgres"), door.directory, "ingest")
    for words in (["list", "--user", "42"], ["show", uuid4()], ["explain", uuid4()]):
        refusal = empty.refuse(*words)
        assert isinstance(refusal, NotMigrated)
        assert "duly migrate" in str(refusal)
