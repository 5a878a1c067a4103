"""The catalogue as text: a line for every table, view, constraint, index, trigger, function, policy, enum and grant.

Two databases with the same fingerprint behave the same. The fingerprint of the migrated schema is committed, so that a
review shows every change; partitions are left out, because they come and go.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from duly.db.queries import load_queries

SQL = load_queries(__file__, "fingerprint.sql")


def fingerprint(connection: psycopg.Connection[Any], schemas: Sequence[str]) -> list[str]:
    """Return the lines, in an order that does not depend on the server."""
    rows = connection.execute(SQL.describe_catalogue, {"schemas": list(schemas)})
    return [line for (line,) in rows]
