"""The states of schedules and their runs, and the lease on the plan of a schedule.

    active <---> paused             a schedule; archived is final
        \\          \\
         +----------+---> archived

    pending ---> sent <---> snoozed         a run; each of the three may become confirmed, skipped or cancelled,
        \\        |          /               which are final
         +-------+---------+---> confirmed, skipped, cancelled

A worker creates the runs of a schedule ahead of their time while it holds the lease on the schedule's plan. Changing a
schedule ends that lease, so that runs of a former rule are never written.
"""

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable

SQL = load_queries(__file__, "lease.sql")
PLAN_TABLE = LeaseTable(("scheduler", "job_plans"), SQL, key="job_id")
