"""The timeline of a day's versions as the fixture changes, as the worker's contract lists it.

python -m unittest tests/test_integration_fixture_versioning.py
"""

# ruff: noqa: PT009, PT027 (these run by unittest too, whose words they are written in)
import unittest
from typing import Any

import psycopg

from tests.support.contract_case import ContractCase

ENTRY: dict[str, Any] = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}
DATE = "2026-02-10"


class FixtureVersioning(ContractCase):
    """A new version exactly when the day changed."""

    async def test_the_timeline_of_a_day(self) -> None:
        self.write(schedule_date=DATE, entries=[ENTRY])
        first = self.run_once()
        self.assertEqual(self.versions(), [(DATE, 1, first)])

        self.write(entries=[{**ENTRY, "start": "11:00"}], schedule_date=DATE)
        second = self.run_once()
        self.assertEqual(self.versions(), [(DATE, 1, first), (DATE, 2, second)])

        same = self.run_once()  # as it was: no version, and the session is done all the same
        noisy = self.run_once(ENABLE_CHAOS_PARSER="true", CHAOS_SEED="7")
        self.assertEqual(len(self.versions()), 2)
        for key in (same, noisy):
            session = self.session(key)
            ended = (session["state"], session["result"]["outcome"])
            self.assertEqual(ended, (self.settings.done_state, "unchanged"))

        self.write(schedule_date=DATE, entries=[ENTRY])
        back = self.run_once()  # what it was before is a change too
        self.assertEqual(self.versions()[2:], [(DATE, 3, back)])
        self.assertEqual(self.pointers(), {DATE: 3})
        statement = "select payload_hash from HOME.schedule_version where user_id = %s order by version"
        hashes = [found for (found,) in self.rows(statement, self.user)]
        self.assertEqual(hashes[0], hashes[2])
        self.assertNotEqual(hashes[0], hashes[1])

    async def test_every_day_and_every_person_has_a_timeline_of_its_own(self) -> None:
        self.write(schedule_date=DATE, entries=[ENTRY])
        self.run_once()
        self.write(schedule_date="2026-02-11", entries=[ENTRY])
        self.run_once()
        self.assertEqual(self.pointers(), {DATE: 1, "2026-02-11": 1})
        self.user += 1
        self.run_once()
        self.assertEqual(self.pointers(), {"2026-02-11": 1})

    async def test_versions_stay_as_they_were_written(self) -> None:
        self.write(schedule_date=DATE, entries=[ENTRY])
        first = self.run_once()
        statement = "select to_jsonb(v) from HOME.schedule_version as v where session_id = %s"
        before = self.one(statement, first)
        self.write(schedule_date=DATE, entries=[{**ENTRY, "start": "11:00"}])
        second = self.run_once()
        self.assertEqual(self.one(statement, first), before)
        self.assertEqual(self.versions(), [(DATE, 1, first), (DATE, 2, second)])

    async def test_duly_refuses_to_change_what_was_written(self) -> None:
        if not self.is_dulys:
            self.skipTest("the backend that owns these tables guards its versions, or does not")
        self.write(schedule_date=DATE, entries=[ENTRY])
        key = self.run_once()
        for statement in (
            "update HOME.schedule_version set payload = '{}' where session_id = %s",
            "delete from HOME.schedule_version where session_id = %s",
        ):
            with self.assertRaises(psycopg.Error):
                self.admin.execute(self.qualified(statement).encode(), [key])
        with self.assertRaises(psycopg.errors.InsufficientPrivilege):
            await self.captures.worker.execute(
                self.qualified("update HOME.day_schedule set current_version = 9").encode()
            )
        self.assertEqual(self.versions(), [(DATE, 1, key)])

    async def test_a_session_that_cannot_be_read_leaves_nothing_and_the_next_goes_on(self) -> None:
        self.write(schedule_date=DATE, entries=[{**ENTRY, "start": "25:00"}])
        bad = self.run_once()
        session = self.session(bad)
        self.assertEqual(session["state"], self.settings.failed_state)
        self.assertIn("entries[0].start", session["error"])
        self.assertEqual((self.versions(), self.pointers()), ([], {}))
        self.write(schedule_date=DATE, entries=[ENTRY])
        good = self.run_once()
        self.assertEqual(self.versions(), [(DATE, 1, good)])


if __name__ == "__main__":
    unittest.main()
