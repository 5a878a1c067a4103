"""What one person, or one schedule, may make the database keep; `docs/limits.md` states these values.

The database enforces the first three itself (`scheduler.limits()`); a test compares.
"""

__all__ = [
    "MAX_AHEAD_RUNS",
    "MAX_MISSED_RUNS",
    "MAX_PAST_YEARS",
    "MAX_PENDING_RUNS",
    "MAX_SCHEDULES_PER_PERSON",
]

MAX_PENDING_RUNS = 2000  # of one schedule
MAX_SCHEDULES_PER_PERSON = 200  # that are not archived
MAX_PAST_YEARS = 10  # between first_run_at and now

MAX_AHEAD_RUNS = 1000  # planned ahead of one schedule
MAX_MISSED_RUNS = 100  # missed periods that get a row each; earlier ones are kept as ranges
