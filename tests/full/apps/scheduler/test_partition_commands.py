"""`duly partitions`: list, create, archive and drop months; keys outlive their runs."""

import json

import psycopg

from duly.errors import Unavailable
from tests.fast.apps.scheduler.test_partition_commands import add_run, cli
from tests.support.command_line import CommandLine
from tests.support.scheduler.actions import ScheduleActions

__all__ = ["cli"]


def test_a_partition_command_does_not_wait_for_a_locked_table(schedules: ScheduleActions, cli: CommandLine) -> None:
    add_run(schedules, "2030-01-05")
    with psycopg.connect(schedules.admin.info.dsn) as other:
        other.execute("select count(*) from scheduler.job_runs")  # a dump, say
        error = cli.error("partitions", "drop", "2030-01", "--yes")
        assert isinstance(error, Unavailable)
        assert "within 5 s: another session, for example pg_dump, has a lock on them; nothing was changed" in str(error)
        other.execute("lock table scheduler.job_runs in access exclusive mode")
        with cli.start("partitions", "create", "2033-01", "--json") as program:
            assert json.loads(program.line())["error"]["code"] == "UNAVAILABLE"
            assert program.process.wait(60) == Unavailable.exit_status
    assert cli.json("partitions", "drop", "2030-01", "--yes")["runs"] == 1


def test_concurrent_schedule_changes_succeed_while_a_partition_is_dropped(
    schedules: ScheduleActions, cli: CommandLine
) -> None:
    add_run(schedules, "2030-01-05")
    with psycopg.connect(schedules.admin.info.dsn) as other:
        other.execute("update scheduler.jobs set description = 'changed'")
        assert isinstance(cli.error("partitions", "drop", "2030-01", "--yes"), Unavailable)
        other.execute("update scheduler.jobs set advance_minutes = 5")  # which looks at the runs
        other.commit()
    assert cli.json("partitions", "drop", "2030-01", "--yes")["runs"] == 1
