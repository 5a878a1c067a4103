"""Many concurrent taps from two processes, one of them killed: one effect per run."""

import os
from collections import Counter
from datetime import UTC, datetime

from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from tests.support.processes import PYTHON, Program, plain_environment
from tests.support.scheduler.actions import ScheduleActions

RUNS = 6


async def test_concurrent_taps_have_one_effect_per_run(schedules: ScheduleActions) -> None:
    schedules.set_clock("2026-11-16T10:00:01+00:00")
    for _ in range(RUNS):
        await schedules.create_with_expense(
            rule="cron: 0 10 * * *", first_run_at=datetime(2026, 11, 16, 10, tzinfo=UTC)
        )
    await schedules.run_cycle()
    runs = [str(run) for run in schedules.runs("id")]
    dsn = make_conninfo(schedules.admin.info.dsn, user=Names().api)
    environment = plain_environment(PYTHONPATH=os.getcwd())  # noqa: PTH109

    def tapper(seed: int) -> Program:
        return Program([*PYTHON, "-m", "tests.support.answer_runs", dsn, str(seed), *runs], environment=environment)

    lines: list[str] = []
    with tapper(1) as first, tapper(2) as second:
        assert (first.line(), second.line()) == ("ready", "ready")
        lines += [first.line() for _ in range(60)]
        first.kill()
        while (line := second.line()) != "end":
            lines.append(line)
    with tapper(1) as again:  # everything is tried again, as a device does that got no answer
        assert again.line() == "ready"
        while (line := again.line()) != "end":
            lines.append(line)
    outcomes = Counter(line.split()[0] for line in lines)
    assert outcomes["Created"] >= RUNS
    assert outcomes["ALREADY_ANSWERED"] > 0
    assert set(outcomes) <= {"Created", "Existing", "ALREADY_ANSWERED", "KEY_REUSED"}, outcomes
    finals = schedules.rows(
        "select job_run_id, count(*) from scheduler.confirmations where action <> 'snooze' group by 1 order by 1"
    )
    assert [number for _, number in finals] == [1] * RUNS
    booked = schedules.rows("select source_ref, count(*) from expense.expenses group by 1")
    completed = schedules.one("select count(*) from scheduler.confirmations where action = 'complete'")
    assert [number for _, number in booked] == [1] * completed
    assert Counter(schedules.runs("status"))["confirmed"] == completed
    assert all(status in ("confirmed", "skipped", "cancelled") for status in schedules.runs("status"))
