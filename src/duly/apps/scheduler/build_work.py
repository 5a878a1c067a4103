"""Builds the work on schedules from the settings."""

from datetime import timedelta

from duly.apps.scheduler.work import ScheduleWork
from duly.assembly import WorkPlan
from duly.lease.work import Tuning, Work


def build_schedule_work(plan: WorkPlan) -> Work:
    """Build the work that plans the runs of schedules and queues the reminders that are due."""
    settings = plan.settings
    tuning = Tuning(
        poll_seconds=settings.poll_seconds, sweep_seconds=settings.sweep_seconds, slots=settings.scheduler_slots
    )
    return ScheduleWork(tuning, horizon=timedelta(seconds=settings.scheduler_horizon_seconds))
