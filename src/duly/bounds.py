"""The bounds of a job, each written here once: what checks or names one takes it from here.

    the guard of the table     jobs/states.py, rendered to jobs/guards.sql: holds for every caller
    the SDK, HTTP, the CLI     jobs/validation.py, http/job_models.py, cli/jobs.py: refuse sooner
    errors of the database     db/error_table.py: the rule in words

`python -m tools.generate` writes anew what is rendered from them. The length of a column takes a revision that changes
the column as well. The limit of a payload and a result is `canonical_json.MAX_BYTES`, that of a duration
`backoff.MAX_SECONDS`.
"""

MIN_PRIORITY, MAX_PRIORITY = -100, 100
MAX_ATTEMPTS = 1000
MAX_SNOOZES = 1000
MIN_RETAIN_DAYS, MAX_RETAIN_DAYS = 1, 3660
MAX_NAME_LENGTH = 100  # of a type and a queue, and of their columns
MAX_KEY_LENGTH = 255  # of an idempotency key, and of its column
MAX_ACTOR_LENGTH = 255  # of who requested a job, and of the column
MAX_STAGE_LENGTH = 200
MAX_CONCURRENCY = 1_000_000
MAX_EVENT_DETAIL_BYTES = 65_536

# Rules in words, for every message.
NAME_RULE = f"must have 1 to {MAX_NAME_LENGTH} characters of A-Z a-z 0-9 _ . : / - and begin with a letter or digit"
RETAIN_RULE = f"must be between {MIN_RETAIN_DAYS} and {MAX_RETAIN_DAYS} days"
