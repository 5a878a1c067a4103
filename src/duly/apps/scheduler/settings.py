"""Settings of the application scheduler."""

from duly.configuration import Count, Seconds, Section, setting
from duly.configuration.engine import EngineSettings


class SchedulerSettings(EngineSettings):
    """Schedules and their reminders."""

    scheduler_slots: Count = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_SLOTS",
        default=200,
        description="Schedules that a worker plans at once.",
    )
    scheduler_horizon_seconds: Seconds = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_HORIZON_SECONDS",
        default=3600,
        description="How long before its reminder is due a run is created.",
    )
    scheduler_reversal_seconds: Seconds = setting(
        Section.SCHEDULER,
        "DULY_SCHEDULER_REVERSAL_SECONDS",
        default=600,
        description="How long after an answer its expense can be reversed.",
    )
