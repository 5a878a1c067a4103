"""How deep a claim and a settle stand on the stack, from the worker's loop to the SQL: what a reader must hold."""

import asyncio
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import AsyncCursor

import duly
from duly.apps.posts.rules import RulesAnalyzer
from duly.apps.posts.work import PostWork
from duly.apps.scheduler.work import ScheduleWork
from duly.jobs.work import Handler, JobWork
from duly.lease.work import Tuning, Work
from duly.outbox import OUTBOX
from duly.outbox.sender import SendWork
from tests.proof.guards.claimable_tables import CLAIMABLE_TABLES
from tests.support.actions import working
from tests.support.conformance.tables import PARCEL
from tests.support.conformance.work import ConformanceWork
from tests.support.outbox.actions import ScriptedChannel

Admin = psycopg.Connection[Any]
SOURCES = Path(duly.__file__).parent
LOOP = "settle_and_claim"  # one turn of the worker's loop
MAX_CLAIM_FRAMES = 4
MAX_SETTLE_FRAMES = 6
SECONDS = 30.0


class Stacks(list[list[str]]):
    """Functions of ours on the stack of every statement that the worker's loop runs, outermost first."""

    def __init__(self) -> None:
        super().__init__()
        self.has_settled = threading.Event()


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch) -> Stacks:
    """Record the stack of every statement that the worker's loop runs."""
    found = Stacks()
    execute = AsyncCursor.execute

    async def recording(self: AsyncCursor[Any], *arguments: Any, **options: Any) -> Any:
        ours = [frame.name for frame in traceback.extract_stack() if Path(frame.filename).is_relative_to(SOURCES)]
        if LOOP in ours:
            found.append(ours[ours.index(LOOP) + 1 :])
            if ours[-2] == "settle_rows":
                found.has_settled.set()
        return await execute(self, *arguments, **options)

    monkeypatch.setattr(AsyncCursor, "execute", recording)
    return found


def deepest(stacks: Sequence[Sequence[str]], first: str) -> Sequence[str]:
    """Return the deepest of the stacks that begin with this function."""
    return max((stack for stack in stacks if stack and stack[0] == first), key=len)


async def work(_context: object) -> None:
    """Do nothing."""


def works() -> dict[str, Work]:
    """Return one work type for each kind of table, by the name of the rows that are put for it."""
    tuning = Tuning(poll_seconds=0.1, sweep_seconds=3600.0)
    return {
        "parcel": ConformanceWork(PARCEL),
        "job": JobWork([Handler("work", work)], tuning),
        "post": PostWork(RulesAnalyzer(), tuning),
        "plan": ScheduleWork(tuning),
        "message": SendWork("outbox", OUTBOX, {"test": ScriptedChannel("test")}, tuning),
    }


@pytest.mark.parametrize("name", works())
async def test_a_claim_and_a_settle_are_a_few_frames_from_the_loop(
    name: str, conformance_dsn: str, workers: str, admin: Admin, stacks: Stacks
) -> None:
    admin.execute("insert into duly.person (uid) values ('anna')")
    admin.execute(CLAIMABLE_TABLES[name].insert_statement)
    if name == "parcel":
        admin.execute("update conformance.parcel set note = 'say done'")
    async with working(workers, works()[name]):
        assert await asyncio.to_thread(stacks.has_settled.wait, SECONDS)
    claim = deepest(stacks, "claim_up_to")
    settle = deepest([stack for stack in stacks if "settle_rows" in stack], "settle_outcomes")
    assert len(claim) <= MAX_CLAIM_FRAMES, claim
    assert len(settle) <= MAX_SETTLE_FRAMES, settle
    for stack in (claim, settle):
        assert len(set(stack)) == len(stack), f"a name twice on one stack: {stack}"
