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
Each arrow is one row of `ledger.job_event`, written by a trigger, and so are a cancel request, a released key, and
progress, at most once a second. A crashed worker's lease expires: its job goes from running to failed, and on. A
running job is also canceled at once (`now`), and when it fails, is released or crashes after a cancel request.

`ledger.enqueue(...)` is plain SQL that any language calls inside its own transaction. Jobs belong to an org, the
tenant: row level security is forced, the API sees the org that its transaction has set, and workers see all orgs.

    start      one run of the handler, counted in `starts`; the contract's `attempt` is `starts - 1`
    owner      `<worker>/<token>`, new for every claim; the holder of a lease is the worker in it
    settle     record in the row how a run ended: done, failed, cancelled, or `Later`, which is a snooze
    release    put the row back in the queue before the handler has ended; its start is not counted
    limit      a row of `ledger.job_limit`: a pause, or how many jobs of a type may run at once

A worker is notified of jobs that become due by a call: enqueued, redriven or resumed. It finds the others, which are
retried, snoozed, released or scheduled for later, when it polls.
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
from duly.jobs.states import JOB

__all__ = [
    "JOB",
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
