"""Unit checks of the worker, as its contract lists them: what a fixture may be, and that values are never SQL.

python -m unittest tests/test_main_worker.py
"""

# ruff: noqa: PT009, PT027 (these run by unittest too, whose words they are written in)
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4

from psycopg import sql

from duly.apps.ingest import settlement
from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.day import Day, apply_capture
from duly.apps.ingest.reading import CaptureInput, FixtureReader, read_payload
from duly.apps.ingest.states import capture_lease_table
from duly.errors import InvalidArgument, Misconfigured, NotATestDatabase
from duly.launcher import ROOT
from duly.lease.operations import Lease
from duly.settings import load_settings
from tests.support.contract_database import given_database
from tests.support.processes import plain_environment

MAIN = ROOT / "main.py"
DAY: dict[str, Any] = {
    "schedule_date": "2026-02-10",
    "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}],
}
HOSTILE = "Robert'); drop table schedule_ingest.schedule_version; --%(key)s"


class FixtureParsing(unittest.TestCase):
    """What a fixture must be, and what becomes of it."""

    def setUp(self) -> None:
        self.path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "day.json"

    def refused(self, text: str) -> str:
        """Why a file with this text is refused."""
        self.path.write_text(text)
        with self.assertRaises(InvalidArgument) as refusal:
            canonicalize(read_payload(self.path))
        return str(refusal.exception)

    def test_the_sample_is_a_day(self) -> None:
        day = canonicalize(read_payload(ROOT / "fixtures" / "sample_schedule.json"))
        self.assertEqual(day.schedule_date, date(2026, 2, 10))
        self.assertEqual(day.payload, DAY)
        self.assertEqual(len(day.payload_hash), 64)

    def test_what_is_no_object_is_refused_by_its_name(self) -> None:
        for text in ("[]", "3", "null", '"2026-02-10"'):
            self.assertIn("must hold an object", self.refused(text))
        self.assertIn("is not JSON", self.refused("{"))

    def test_a_file_that_is_not_there_is_an_error_of_configuration(self) -> None:
        with self.assertRaises(Misconfigured) as refusal:
            asyncio.run(cast("Any", FixtureReader(self.path).read(CaptureInput(uuid4(), 42))))
        self.assertIn(f"FIXTURE_PAYLOAD_PATH={self.path}", str(refusal.exception))

    def test_the_date_must_be_there_and_be_a_date(self) -> None:
        self.assertIn("schedule_date", self.refused('{"entries": []}'))
        for text in ('"10/02/2026"', '"2026-02-30"', "20260210", "null"):
            self.assertIn("schedule_date", self.refused(f'{{"schedule_date": {text}}}'))

    def test_a_bad_entry_is_named_by_its_place(self) -> None:
        self.assertIn("entries[0].start", self.refused('{"schedule_date": "2026-02-10", "entries": [{"start": "x"}]}'))

    def test_an_entry_without_start_end_or_title_is_refused_by_its_place_and_name(self) -> None:
        for name in ("start", "end", "title"):
            entry = {key: value for key, value in DAY["entries"][0].items() if key != name}
            with self.assertRaises(InvalidArgument) as refusal:
                canonicalize({**DAY, "entries": [DAY["entries"][0], entry]})
            self.assertIn(f"entries[1].{name}: must be", str(refusal.exception))

    def test_the_file_is_read_anew_every_time(self) -> None:
        reader, captured = FixtureReader(self.path), CaptureInput(uuid4(), 42)
        for start in ("10:00", "11:00"):
            self.path.write_text(f'{{"schedule_date": "2026-02-10", "note": "{start}"}}')
            self.assertEqual(asyncio.run(cast("Any", reader.read(captured)))[0].payload["note"], start)

    def test_the_hash_is_of_what_is_meant_and_not_of_how_it_is_written(self) -> None:
        entry = {"location": " BILLDAL", "title": "cleaning ", "end": "14.00", "start": "10:0"}
        self.assertEqual(canonicalize({"entries": [entry], "schedule_date": "2026-02-10"}), canonicalize(DAY))
        later = {**DAY, "entries": [{**DAY["entries"][0], "start": "11:00"}]}
        self.assertNotEqual(canonicalize(later).payload_hash, canonicalize(DAY).payload_hash)


class Heard:
    """A connection that writes down what it is asked, and answers with nothing."""

    def __init__(self) -> None:
        self.statement = ""
        self.values: Mapping[str, Any] = {}

    def cursor(self, **_: object) -> "Heard":
        return self

    async def __aenter__(self) -> "Heard":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def execute(self, statement: sql.Composable | str, values: Mapping[str, Any], **_: object) -> "Heard":
        self.statement = statement if isinstance(statement, str) else statement.as_string(None)
        self.values = values
        return self

    async def fetchall(self) -> Sequence[Any]:
        return []

    rowcount = 0


def taken_of(key: UUID) -> settlement.SettledCapture:
    """A session of a person with an evil customer, and its step."""
    entry = {**DAY["entries"][0], "title": HOSTILE, "location": HOSTILE}
    seen = canonicalize({**DAY, "entries": [entry], "note": HOSTILE})
    step = apply_capture(Day(42, seen.schedule_date), key, seen, summary_threshold=3)
    lease = Lease(capture_lease_table(), f"worker-1/{HOSTILE}", {"id": key, "user_id": 42}, time.monotonic())
    return settlement.SettledCapture(lease, step, seen.payload, {"outcome": "changed", "note": HOSTILE})


class InsertsAreParameterised(unittest.IsolatedAsyncioTestCase):
    """Values are parameters; the text of a statement is the same whatever they are."""

    async def asked(self, write: Any, key: UUID) -> Heard:
        """What a function asks of the database."""
        heard = Heard()
        await write(heard, [taken_of(key)])
        return heard

    async def settle(self, heard: Any, taken: Sequence[settlement.SettledCapture]) -> None:
        """The statement that settles a session and writes its version."""
        await settlement.SettlementTables().settle_captures(heard, taken)

    async def test_no_value_stands_in_a_statement(self) -> None:
        async def events(heard: Any, taken: Sequence[settlement.SettledCapture]) -> None:
            await settlement.SettlementTables().add_events(heard, taken)

        async def snapshots(heard: Any, taken: Sequence[settlement.SettledCapture]) -> None:
            await settlement.SettlementTables().put_day_snapshots(heard, taken)

        async def notices(heard: Any, taken: Sequence[settlement.SettledCapture]) -> None:
            await settlement.SettlementTables().add_notifications(heard, taken)

        for write in (self.settle, events, snapshots, notices):
            key = uuid4()
            one, other = await self.asked(write, key), await self.asked(write, uuid4())
            self.assertEqual(one.statement, other.statement)
            self.assertTrue(any(key in values for values in one.values.values() if isinstance(values, list)))
            for word in ("Robert", "drop table", str(key), "2026-02-10"):
                self.assertNotIn(word.casefold(), one.statement.casefold())

    async def test_the_version_is_guarded_by_the_owner_and_says_whether_it_was_there(self) -> None:
        heard = await self.asked(self.settle, uuid4())
        statement = " ".join(heard.statement.split())
        self.assertIn("%(owners)s", statement)
        self.assertIn("t.locked_by = given.owner", statement)
        self.assertIn('insert into "schedule_ingest".schedule_version', statement)
        self.assertIn("from settled", statement)
        self.assertIn("on conflict do nothing returning session_id", statement)
        self.assertIn(HOSTILE, heard.values["owners"][0])
        self.assertIn("Robert", heard.values["payload"][0])

    def test_a_schema_that_is_no_name_is_refused(self) -> None:
        for name in ('x"; drop schema schedule_ingest', "a b", "ledger"):
            with patch.dict(os.environ, {"DB_SCHEMA": name}), self.assertRaises(Misconfigured) as refusal:
                load_settings()
            self.assertIn("DB_SCHEMA", str(refusal.exception))


class Starting(unittest.TestCase):
    """What it needs before it begins."""

    def test_without_an_address_it_ends_with_1_and_names_the_variables(self) -> None:
        answer = subprocess.run(
            [sys.executable, str(MAIN)], env=plain_environment(), capture_output=True, text=True, timeout=60
        )
        self.assertEqual(answer.returncode, 1)
        for name in ("DATABASE_URL", "POSTGRES_DSN", "TEST_DATABASE_URL"):
            self.assertIn(name, answer.stderr)

    def test_a_heartbeat_must_be_shorter_than_a_third_of_the_lease(self) -> None:
        for beat, is_fit in (("99", True), ("100", False)):
            environment = {"LEASE_TIMEOUT_SECONDS": "300", "LEASE_HEARTBEAT_SECONDS": beat}
            with patch.dict(os.environ, environment):
                if is_fit:
                    load_settings()
                else:
                    self.assertRaises(Misconfigured, load_settings)

    def test_these_tests_refuse_a_database_that_is_not_for_tests(self) -> None:
        for variable in ("TEST_DATABASE_URL", "DATABASE_URL"):
            given = {"TEST_DATABASE_URL": "", "DATABASE_URL": "", variable: "postgresql://localhost/production"}
            with patch.dict(os.environ, given):
                self.assertRaises(NotATestDatabase, given_database)


if __name__ == "__main__":
    unittest.main()
