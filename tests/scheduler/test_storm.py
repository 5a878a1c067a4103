"""Many taps at once, from two processes, one of them killed: one effect for every run."""

import os
from collections import Counter
from datetime import UTC, datetime

from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from tests.scheduler.hands import Hands
from tests.support.processes import PYTHON, Program, plain_environment

RUNS = 6


async def test_a_storm_of_taps_has_one_effect_for_every_run(hands: Hands) -> None:
    hands.set_clock("2026-11-16T10:00:01+00:00")
    for _ in range(RUNS):
        await hands.add_with_expense(rule="cron: 0 10 * * *", first_run_at=datetime(2026, 11, 16, 10, tzinfo=UTC))
    await hands.turn()
    runs = [str(run) for run in hands.runs("id")]
    dsn = make_conninfo(hands.admin.info.dsn, user=Names().api)
    environment = plain_environment(PYTHONPATH=os.getcwd())  # noqa: PTH109

    def tapper(seed: int) -> Program:
        return Program([*PYTHON, "-m", "tests.support.tapper", dsn, str(seed), *runs], environment=environment)

    told: list[str] = []
    with tapper(1) as first, tapper(2) as second:
        assert (first.line(), second.line()) == ("ready", "ready")
        told += [first.line() for _ in range(60)]
        first.kill()
        while (line := second.line()) != "end":
            told.append(line)
    with tapper(1) as again:  # everything is tried again, as a device does that got no answer
        assert again.line() == "ready"
        while (line := again.line()) != "end":
            told.append(line)
    kinds = Counter(line.split()[0] for line in told)
    assert kinds["Created"] >= RUNS
    assert kinds["ALREADY_ANSWERED"] > 0
    assert set(kinds) <= {"Created", "Existing", "ALREADY_ANSWERED", "KEY_REUSED"}, kinds
    finals = hands.all(
        "select job_run_id, count(*) from scheduler.confirmations where action <> 'snooze' group by 1 order by 1"
    )
    assert [several for _, several in finals] == [1] * RUNS
    booked = hands.all("select source_ref, count(*) from expense.expenses group by 1")
    completed = hands.one("select count(*) from scheduler.confirmations where action = 'complete'")
    assert [several for _, several in booked] == [1] * completed
    assert Counter(hands.runs())["confirmed"] == completed
    assert all(status in ("confirmed", "skipped", "cancelled") for status in hands.runs())
