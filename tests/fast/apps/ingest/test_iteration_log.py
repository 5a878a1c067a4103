"""Looks of ingest that find nothing: logged where a worker does nothing else, and not where nobody uses ingest."""

import json
from typing import Any

from duly.apps.ingest.reading import FixtureReader
from duly.apps.ingest.work import CaptureWork, Rules
from duly.lease.work import Tuning
from duly.settings import Settings
from duly.wiring import works_of
from tests.support.ingest.actions import SAMPLE
from tests.support.outbox.said import lines_of_log


def levels_of_idle_looks(*, is_alone: bool, had_sessions: bool = False) -> list[str]:
    """At which levels a look that finds nothing is logged."""
    work = CaptureWork(FixtureReader(SAMPLE), Tuning(), Rules(due="created_at"))
    work.is_alone, work.had_sessions = is_alone, had_sessions
    with lines_of_log("debug") as lines:
        work.begin_iteration([])
        logged: list[dict[str, Any]] = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line["level"] for line in logged if line["event"].startswith("worker.iteration")]


def test_a_worker_for_ingest_alone_logs_that_it_looked() -> None:
    assert levels_of_idle_looks(is_alone=True) == ["info", "info"]


def test_beside_other_work_looks_are_told_at_debug_until_there_was_a_session() -> None:
    assert levels_of_idle_looks(is_alone=False) == ["debug", "debug"]
    assert levels_of_idle_looks(is_alone=False, had_sessions=True) == ["info", "info"]


def test_a_worker_knows_whether_it_does_anything_else() -> None:
    (alone,) = works_of(Settings(), ["outbox"])
    assert alone.is_alone
    assert not any(work.is_alone for work in works_of(Settings(), ["outbox", "ledger"]))
