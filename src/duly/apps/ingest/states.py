"""The lease table of capture sessions: the images that a user sends to be read together.

The schema and the names of the states are configurable: a backend may own these tables and call the state `pending`
`closed`. A session is due by one of three columns: `main.py`, the one-cycle worker of the contract, claims any session
(`created_at`); `duly worker` claims those that are closed, on request or because no image has arrived for a while
(`closed_at`); a worker without OCR claims those that were given as data (`given_at`).
"""

from dataclasses import asdict, dataclass

from psycopg import sql

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable

SQL = load_queries(__file__, "lease.sql")
DEFAULT_SCHEMA = "schedule_ingest"
DEFAULT_LEASE_SECONDS = 300  # the default of LEASE_TIMEOUT_SECONDS


@dataclass(frozen=True)
class States:
    """The installation's names of the four states."""

    pending: str = "pending"
    processing: str = "processing"
    done: str = "done"
    failed: str = "failed"


def capture_lease_table(
    schema: str = DEFAULT_SCHEMA,
    states: States = States(),  # noqa: B008 (frozen)
    *,
    due: str = "closed_at",
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
) -> LeaseTable:
    """Return the lease table of a schema, due by this column; `lease_seconds` is that of a lease which names none."""
    names = {name: sql.Literal(state) for name, state in asdict(states).items()}
    statements = SQL.using(schema=schema, due=due, default_lease_seconds=sql.Literal(float(lease_seconds)), **names)
    return LeaseTable((schema, "capture_session"), statements)
