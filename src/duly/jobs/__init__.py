"""Jobs: enqueued once per key, leased to one worker at a time, retried by policy, with a log of every transition.

                  claim                  done
    queued ------------------> running ---------> succeeded
     | ^ ^                      | | |
     | | +---- released, -------+ | +-- stopped --> canceled <-- cancel -- queued
     | |       snoozed            |
     | |                          v
     | +------- retry --------- failed          never at rest: the same transaction moves it on
     |                            |
     |                            v  max_attempts reached, or given up
     +<------ redriven ------ dead_letter

Terminal are succeeded, canceled and dead_letter: only these have a `finished_at`, and are deleted after `retain_for`.
Each arrow is one row of `ledger.job_event`, written by a trigger, and so are progress, a cancel request and a released
key. A crashed worker's lease expires: its job goes from running to failed, and on.

`ledger.enqueue(...)` is plain SQL that any language calls inside its own transaction. Jobs belong to an org: row level
security is forced, the API sees the org that its transaction has set, and workers see all orgs.
"""

from duly.jobs.model import (
    DeadLetterFilter,
    Floor,
    Job,
    JobEvent,
    JobLimit,
    JobOptions,
    JobRequest,
    JobStatus,
    TypeInQueue,
)
from duly.jobs.states import JOB, JOB_EVENT, JOB_MACHINE

__all__ = [
    "JOB",
    "JOB_EVENT",
    "JOB_MACHINE",
    "DeadLetterFilter",
    "Floor",
    "Job",
    "JobEvent",
    "JobLimit",
    "JobOptions",
    "JobRequest",
    "JobStatus",
    "TypeInQueue",
]
