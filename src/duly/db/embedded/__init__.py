"""A private PostgreSQL that runs exactly as long as somebody uses it.

    user process ---- shared lock on users.lock -------+
    user process ---- shared lock on users.lock -------+---> nobody left: the supervisor gets the exclusive lock,
                                                       |     stops the server cleanly and goes
    supervisor  ----- exclusive lock on supervisor.lock
        +-- postgres                                         killed: started again, which is crash recovery

Locks belong to the kernel, which releases them on any death, kill -9 included; nothing is ever cleaned up by a
list of process ids. The server listens on a socket in a directory only its account may enter, never on a port. As
root it runs under an account that exists already, for PostgreSQL refuses root.

`binaries` finds the programs, `account` whom they run as, `plan` where everything lies, `supervisor` owns the server
process, `server` is what the rest of duly uses.
"""

from duly.db.embedded.plan import has_data
from duly.db.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer", "has_data"]
