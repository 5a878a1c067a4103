"""What the application scheduler brings."""

from pathlib import Path

from duly.applications import Application, Command, Machine

SCHEDULER = Application(
    name="scheduler",
    directory=Path(__file__).parent,
    schemas=("scheduler", "expense", "user"),
    settings="duly.apps.scheduler.settings:SchedulerSettings",
    machines=(
        Machine("schedule", "scheduler.jobs", "status", stays=("active", "paused", "archived")),
        Machine("run", "scheduler.job_runs", "status"),
    ),
    commands=(
        Command(
            "schedule",
            "duly.apps.scheduler.cli.schedule",
            "Recurring reminders: schedules, their runs and the answers.",
        ),
        Command("expenses", "duly.apps.scheduler.cli.expenses", "Expenses booked by schedules: list and export them."),
        Command(
            "partitions",
            "duly.apps.scheduler.cli.partitions",
            "Monthly partitions of the scheduler's runs: create, archive and drop them.",
        ),
    ),
    http="duly.apps.scheduler.http:HTTP",
    works={"scheduler": "duly.apps.scheduler.build_work:build_schedule_work"},
    checks={"partitions": "duly.apps.scheduler.doctor:check_partitions"},
    computed_invariants={},
)
