"""The catalogue as text: every table, view, constraint, index, trigger, function, policy, enum and grant, a line each.

Two databases with the same fingerprint behave the same. The one the migrations lead to is committed, so a change of it
is seen in review; partitions are left out, for they come and go.
"""

from typing import Any

import psycopg

from duly.db.queries import load_queries

__all__ = ["SCHEMAS", "fingerprint"]

SCHEMAS = ("duly", "user")
SQL = load_queries(__file__, "fingerprint.sql")


def fingerprint(connection: psycopg.Connection[Any], schemas: tuple[str, ...] = SCHEMAS) -> list[str]:
    """The lines, in one order wherever they are made."""
    rows = connection.execute(SQL.describe_catalogue, {"schemas": list(schemas)})
    return [line for (line,) in rows]
