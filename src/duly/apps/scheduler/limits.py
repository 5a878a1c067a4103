"""Limits of what one user, or one schedule, may store; `docs/limits.md` states these values.

The database enforces the first itself, with others (`scheduler.limits()`); a test compares.
"""

MAX_PENDING_RUNS = 2000  # per schedule

REMINDER_BATCH_SIZE = 500  # due runs per transaction of a worker
MAX_AHEAD_RUNS = 1000  # per schedule, planned ahead
MAX_MISSED_RUNS = 100  # missed periods that get a run each; earlier ones are stored as ranges
