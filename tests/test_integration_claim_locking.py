"""Claiming and finalising from several sides at once, as the worker's contract lists it.

python -m unittest tests/test_integration_claim_locking.py
"""

# ruff: noqa: PT009 (these run by unittest too, whose words they are written in)
import unittest
from collections import Counter
from typing import Any
from uuid import UUID

from duly.apps.ingest.work import CaptureWork
from duly.lease.operations import Lease, renew_leases
from tests.support.contract_case import ContractCase, in_many
from tests.support.ingest.actions import LEASE

DAY: dict[str, Any] = {"schedule_date": "2026-02-10", "entries": [{"start": "10:00", "end": "14:00", "title": "A"}]}
WORKERS = 8
SESSIONS = 40


class ClaimLocking(ContractCase):
    """A session has one holder, and only that one finishes it."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.write(**DAY)
        self.capture_work: CaptureWork = await self.work()
        for (key,) in self.rows("select id from HOME.capture_session where state = PENDING"):
            self.fail(f"session {key} was left behind by the test before")

    def let_lapse(self, key: UUID) -> None:
        """As if its holder had been silent for longer than its lease."""
        statement = "update HOME.capture_session set locked_at = locked_at - %s * interval '1 s' where id = %s"
        self.admin.execute(self.qualified(statement).encode(), [LEASE + 1, key])

    async def take_over(self) -> Lease:
        """Claim what has expired, under the name that every container has."""
        (lease,) = await self.capture_work.claim_expired(self.captures.worker, "worker-1", 1)
        return lease

    # Claiming

    async def test_two_who_claim_at_once_do_not_wait_and_do_not_share(self) -> None:
        first, second = self.add_session(), self.add_session()
        one, other = await self.connection(), await self.connection()
        async with one.transaction():
            (mine,) = await self.capture_work.claim(one, "worker-1", 1)
            (theirs,) = await self.capture_work.claim(other, "worker-1", 1)
            self.assertEqual(await self.capture_work.claim(other, "worker-1", 1), [])
        self.assertEqual({mine.key, theirs.key}, {first, second})
        await self.captures.finish([mine, theirs], self.capture_work)

    async def test_many_who_claim_at_once_have_each_session_once(self) -> None:
        keys = {self.add_session() for _ in range(SESSIONS)}
        connections = [await self.connection() for _ in range(WORKERS)]

        async def claim_all(nth: int) -> list[Lease]:
            found: list[Lease] = []
            while leases := await self.capture_work.claim(connections[nth], "worker-1", 3):
                found += leases
            return found

        leases = [lease for several in await in_many(WORKERS, claim_all) for lease in several]
        self.assertEqual(Counter(lease.key for lease in leases), Counter(keys))
        await self.captures.finish(leases, self.capture_work)

    async def test_a_claim_writes_down_who_holds_it_and_since_when(self) -> None:
        key = self.add_session()
        (lease,) = await self.captures.claim(self.capture_work)
        session = self.session(key)
        self.assertEqual((session["state"], session["locked_by"]), (self.settings.processing_state, lease.owner))
        self.assertTrue(lease.owner.startswith("worker-1/"))
        self.assertIsNotNone(session["locked_at"])
        await self.captures.finish([lease], self.capture_work)

    async def test_a_live_lease_is_nobody_elses_and_a_stale_one_anybodys(self) -> None:
        key = self.add_session()
        await self.captures.claim(self.capture_work)
        self.assertEqual(await self.capture_work.claim_expired(self.captures.worker, "worker-2", 1), [])
        self.let_lapse(key)
        lease = await self.take_over()
        self.assertEqual(lease.key, key)
        await self.captures.finish([lease], self.capture_work)

    # Finalising

    async def test_who_lost_its_lease_neither_writes_nor_finishes_nor_renews(self) -> None:
        key = self.add_session()
        stale = await self.captures.claim(self.capture_work)
        self.let_lapse(key)
        lease = await self.take_over()
        before = self.session(key)
        self.assertEqual(await self.captures.finish(stale, self.capture_work), frozenset())
        answer = await renew_leases(self.captures.worker, stale, lease_seconds=LEASE)
        self.assertEqual((len(answer.renewed), len(answer.lost)), (0, 1))
        self.assertEqual(self.session(key), before)
        self.assertEqual(self.versions(), [])
        self.assertEqual(await self.captures.finish([lease], self.capture_work), {key})
        self.assertEqual(self.versions(), [("2026-02-10", 1, key)])

    async def test_who_lost_its_lease_cannot_fail_the_session_either(self) -> None:
        key = self.add_session()
        stale = await self.captures.claim(self.capture_work)
        self.let_lapse(key)
        lease = await self.take_over()
        self.fixture.write_text("[]")
        self.assertEqual(await self.captures.finish(stale, self.capture_work), frozenset())
        self.assertEqual(self.session(key)["state"], self.settings.processing_state)
        self.write(**DAY)
        await self.captures.finish([lease], self.capture_work)
        self.assertEqual(self.session(key)["state"], self.settings.done_state)

    async def test_finishing_clears_the_lease(self) -> None:
        done = self.add_session()
        await self.captures.finish(await self.captures.claim(self.capture_work), self.capture_work)
        self.fixture.write_text("[]")
        failed = self.add_session()
        await self.captures.finish(await self.captures.claim(self.capture_work), self.capture_work)
        for key, state in ((done, self.settings.done_state), (failed, self.settings.failed_state)):
            session = self.session(key)
            self.assertEqual((session["state"], session["locked_at"], session["locked_by"]), (state, None, None))
            self.assertEqual(session["error"] is not None, key == failed)

    async def test_processes_that_race_for_one_session_make_one_version(self) -> None:
        key = self.add_session()
        printed = [self.end(process) for process in [self.main(WORKER_ID="worker-1") for _ in range(3)]]
        self.assertEqual(sum(f"session {key}: 2026-02-10 version 1 written" in line for line in printed), 1)
        self.assertEqual(sum("nothing to do" in line for line in printed), 2)
        self.assertEqual(self.versions(), [("2026-02-10", 1, key)])
        self.assertEqual(self.session(key)["starts"], 1)

    async def test_processes_that_race_for_one_day_leave_no_gap(self) -> None:
        keys = [self.add_session() for _ in range(3)]
        for process in [self.main(WORKER_ID="worker-1") for _ in keys]:
            self.end(process)
        self.assertEqual([number for _, number, _ in self.versions()], [1])
        self.assertEqual({self.session(key)["state"] for key in keys}, {self.settings.done_state})


if __name__ == "__main__":
    unittest.main()
