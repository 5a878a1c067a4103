"""Ledger: a job is asked for once, held by one worker at a time, tried again by policy, and provable afterwards.

                  claim                  done
    queued ------------------> running ---------> succeeded
     | ^ ^                      | | |
     | | +---- handed back, ----+ | +-- stopped --> canceled <-- cancel -- queued
     | |       later              |
     | |                          v
     | +------- wait ---------- failed          never at rest: the same transaction moves it on
     |                            |
     |                            v  started as often as it may be, or given up
     +<------ redriven ------ dead_letter

Terminal are succeeded, canceled and dead_letter: only these have a `finished_at`, and after `retain_for` they leave.
Each arrow is one row of `ledger.job_event`, written by the database. A crash is a lease that lapses: running, failed,
and on.

`ledger.enqueue(...)` is plain SQL that any language calls inside its own transaction. The tables are bounded by org:
row level security is on and forced, the API sees the tenant that its transaction has set, and workers see every org.
"""

from duly.jobs.model import DeadLetters, Floor, Job, JobEvent, Kind, Limit, Options, Request, Status
from duly.jobs.states import JOB, JOB_EVENT, JOB_MACHINE

__all__ = [
    "JOB",
    "JOB_EVENT",
    "JOB_MACHINE",
    "DeadLetters",
    "Floor",
    "Job",
    "JobEvent",
    "Kind",
    "Limit",
    "Options",
    "Request",
    "Status",
]
