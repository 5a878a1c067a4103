"""Doctor: diagnoses an installation. One finding per check, with a measured value and, if it is not ok, the fix.

    context (connection, settings, limits)  -->  check  -->  notes  -->  finding: ok, warn or bad

It uses the address, login and settings of the components. Every query is a short read-only transaction with a timeout,
and the client disconnects when the server does not respond; a check that fails reports why, and the others still run.

    server        the server itself: version, durability, connections, timeouts, autovacuum, JIT
    clock         clock skew between this machine and the database
    network       poolers, the direct address, NOTIFY
    schema        the revision, the contracts
    roles         roles, memberships, row level security
    transactions  open transactions, replication slots, dead rows, transaction ids
    locks         sessions that wait for locks
    workers       the heartbeat, and workers that are alive
    messages      late, uncertain and failed messages
    telegram      the bot, and how it receives updates

The applications add checks of their own: `apps/posts/doctor.py`, `apps/scheduler/doctor.py`.

Each of these has its statements in the `.sql` file beside it; `checks` lists them all by name, in order. They are built
on `context` (what is checked), `finding` (results), `connection` (queries with a timeout) and `formatting`.
"""

from duly.doctor.checks import load_checks, run_checks
from duly.doctor.connection import open_connection
from duly.doctor.context import CheckContext, Limits
from duly.doctor.finding import Finding, Verdict

__all__ = ["CheckContext", "Finding", "Limits", "Verdict", "load_checks", "open_connection", "run_checks"]
