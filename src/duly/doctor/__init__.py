"""Doctor: why did this not happen? One finding per check, with its figure, and where it is not well what to do.

    case (connection, settings, limits)  -->  check  -->  notes  -->  finding: ok, warn or bad

It sees what the components see: their address, their login, their settings. Every question is a short read-only
transaction with a time limit, cut off from here when the server itself does not answer; a check that cannot be made
says why and leaves the others alone.

    server       the server itself: version, durability, room, timeouts, autovacuum, JIT
    clock        our time and the database's
    way          poolers on the way, the direct address, wake-ups
    content      the revision, the contracts
    roles        who is there, who may act as whom, whom row level security binds
    obstacles    open transactions, slots, dead rows, old numbers
    workers      the heartbeat, and who is alive
    partitions   months to come, rows without one
    messages     what is late, uncertain or failed
    telegram     the bot, and the way its updates take

Each of these asks its own statements, which stand in the file beside it; `checks` has them all by name, in order. Below
them are `case`, what is looked at, `finding`, what is told of it, `connection`, the way to ask, and `words`, the way to
say it.
"""

from duly.doctor.case import Case, Limits
from duly.doctor.checks import CHECKS, examine
from duly.doctor.connection import open_connection
from duly.doctor.finding import Finding, Verdict

__all__ = ["CHECKS", "Case", "Finding", "Limits", "Verdict", "examine", "open_connection"]
