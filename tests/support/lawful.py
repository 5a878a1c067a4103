"""A test leaves its database lawful: what `duly verify` looks for is looked for after it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.verify import check
from duly.verify.contract import CONTRACTS
from duly.verify.invariants import invariants_of

__all__ = ["LAWFUL", "is_lawful", "leave_lawful"]

# After every test of these rooms the laws are asked: what they do, people and workers do.
LAWFUL = ("bot", "delivery", "doors", "faults", "ingest", "ledger", "posts", "races", "scheduler", "stories")
# Where something lies when a contract was used at all; laws about empty tables cost time and say nothing.
USED = """
select
    exists (select from duly.outbox) or exists (select from duly.transition) or exists (select from duly.api_keys),
    exists (select from ledger.job) or exists (select from ledger.job_event),
    exists (select from posts.posts) or exists (select from posts.daily_locks),
    exists (select from scheduler.jobs) or exists (select from scheduler.job_runs)
        or exists (select from expense.expenses),
    exists (select from schedule_ingest.capture_session) or exists (select from schedule_ingest.schedule_version)
        or exists (select from schedule_ingest.schedule_event)
"""
ORDER = ("duly", "ledger", "posts", "scheduler", "ingest")


def is_lawful(request: pytest.FixtureRequest) -> bool:
    """Is a test one that leaves its database lawful: of these rooms, and not said to break laws on purpose?"""
    room = Path(str(request.path)).parent.name
    return room in LAWFUL and request.node.get_closest_marker("lawless") is None


def leave_lawful(connection: psycopg.Connection[Any], request: pytest.FixtureRequest) -> None:
    """Nothing breaks a law when the test is over, unless it says that it breaks some on purpose."""
    if request.node.get_closest_marker("lawless") is None:
        broken = broken_in(connection)
        assert broken == [], broken


def broken_in(connection: psycopg.Connection[Any]) -> Sequence[object]:
    """What breaks a law of a contract that was used."""
    (row,) = connection.execute(USED).fetchall()
    used = [contract for contract, is_used in zip(ORDER, row, strict=True) if is_used]
    if not used:
        return []
    schemas = [schema for contract in used for schema in CONTRACTS[contract]]
    return [each for each in check(connection, schemas, invariants_of(used)) if each.kind == "broken"]
