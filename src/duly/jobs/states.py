"""The lease table of a job, and what its states mean.

A failure is two transitions in one transaction: running to failed, which keeps the owner, and then, fenced by that
owner, to queued or dead_letter. So no committed row is `failed`, unless another program wrote it.

The column `event_detail` holds what a statement adds to the event of its transition: who, why, which error. The guard
keeps it for one transition only: without a transition, or without a new detail, it is set to null. Progress may
repeat its detail: a new `progressed_at` shows that the statement wrote it again.
"""

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable

SQL = load_queries(__file__, "lease.sql")
JOB = LeaseTable(("ledger", "job"), SQL)
