"""The state machines as data, from which the `guards.sql` of each package is rendered: `python -m tools.generate`.

`model` says what a machine has, `render` turns it into triggers by the templates of `guards.sql` beside it, and the
other modules describe the machines of a package each. What is rendered is what ships and runs.
"""

from tools.state_machines.ingest import capture_machine
from tools.state_machines.jobs import JOB_MACHINE
from tools.state_machines.outbox import OUTBOX_MACHINE, notification_machine
from tools.state_machines.posts import POST_MACHINE
from tools.state_machines.scheduler import RUN_MACHINE, SCHEDULE_MACHINE

__all__ = ["INGEST", "MACHINES"]

INGEST = "{ingest}"  # DB_SCHEMA, filled in when the file is run
MACHINES = {
    "outbox": (OUTBOX_MACHINE,),
    "jobs": (JOB_MACHINE,),
    "apps/posts": (POST_MACHINE,),
    "apps/scheduler": (SCHEDULE_MACHINE, RUN_MACHINE),
    "apps/ingest": (capture_machine(INGEST), notification_machine(INGEST)),
}
