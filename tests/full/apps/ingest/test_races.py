"""Concurrent sessions about one day: one writes at a time, and the next sees what it wrote."""

import asyncio
import random

from tests.fast.apps.ingest.test_races import captures, day, workers
from tests.support.ingest.actions import CaptureActions

__all__ = ["captures"]

WORKERS = 4
ROUNDS = 25


async def test_concurrent_batches_with_common_days_do_not_deadlock_or_lose_changes(captures: CaptureActions) -> None:
    days = [f"2026-02-{number}" for number in range(10, 16)]
    async with workers(captures, WORKERS) as several:
        for _ in range(ROUNDS):
            for worker in several:
                shuffled = random.sample(days, len(days))
                await captures.create(*(day(f"{random.randint(8, 17):02}:00", each) for each in shuffled))  # noqa: S311
                await worker.hold(len(days))
            await asyncio.gather(*(worker.write(worker.held) for worker in several))
    rows = captures.rows(
        "select d.schedule_date, d.current_version, count(v), max(v.version)"
        " from schedule_ingest.day_schedule as d join schedule_ingest.schedule_version as v"
        " using (user_id, schedule_date) group by 1, 2"
    )
    assert len(rows) == len(days)
    assert all(pointer == several == last for _, pointer, several, last in rows)
    changed = "select count(*) from schedule_ingest.capture_session where result ->> 'outcome' = 'changed'"
    assert captures.one(changed) == captures.count("schedule_ingest.schedule_version")
    captures.verify()
