"""A private PostgreSQL server that runs exactly as long as a process uses it.

    user process ---- shared lock on users.lock -------+
    user process ---- shared lock on users.lock -------+---> no user left: the supervisor gets the exclusive
                                                       |     lock, stops the server cleanly and exits
    supervisor  ----- exclusive lock on supervisor.lock
        +-- postgres                                         killed: restarted, with crash recovery

The kernel releases the locks when a process ends in any way, kill -9 included; no list of process ids is kept. The
server listens on a socket in a directory that only its account may enter, never on a port. As root it runs under an
existing account, because PostgreSQL refuses root.

`binaries` finds the programs, `account` the account they run under, `plan` decides all paths, `supervisor` owns the
server process, `server` is what the rest of duly uses.
"""

from duly.db.embedded.plan import has_data
from duly.db.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "has_data"]
