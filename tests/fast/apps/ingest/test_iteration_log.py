"""Iterations without a session: logged where ingest is the worker's only work, at debug where it may be unused."""

import json
from typing import Any

from duly.apps.ingest.session_reports import IterationLog
from duly.assembly import build_works
from duly.settings import Settings
from tests.support.outbox.log_capture import capture_log_lines


def levels_of_idle_iterations(*, is_only_work: bool, had_sessions: bool = False) -> list[str]:
    """Return the levels at which an iteration without sessions is logged."""
    iterations = IterationLog(idle_log_every=12)
    iterations.had_sessions = had_sessions
    with capture_log_lines("debug") as lines:
        iterations.start([], is_only_work=is_only_work)
        logged: list[dict[str, Any]] = [json.loads(line) for line in lines.getvalue().splitlines()]
    return [line["level"] for line in logged if line["event"].startswith("worker.iteration")]


def test_a_worker_for_ingest_alone_logs_idle_iterations() -> None:
    assert levels_of_idle_iterations(is_only_work=True) == ["info", "info"]


def test_with_other_work_idle_iterations_are_logged_at_debug_before_any_session() -> None:
    assert levels_of_idle_iterations(is_only_work=False) == ["debug", "debug"]
    assert levels_of_idle_iterations(is_only_work=False, had_sessions=True) == ["info", "info"]


def test_work_knows_whether_it_is_the_only_work_of_its_worker() -> None:
    (alone,) = build_works(Settings(), ["outbox"])
    assert alone.is_only_work
    assert not any(work.is_only_work for work in build_works(Settings(), ["outbox", "ledger"]))
