"""Ingest tables that a backend owns, compared with the contract and with what the lease migration adds to them.

`backend.txt` is the contract of the tables, line by line: `null` and `not null` where it says so, nothing where it does
not. How constraints are called, further columns and tables, checks and triggers are the owner's. Tables of Phases 9 and
12 may be missing; those of Phase 9 come together.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row, scalar_row

from duly.db.queries import load_queries
from duly.verify.contract import Difference

__all__ = ["EVENT_KEY", "compare_backend", "find_owner", "has_owners_key", "is_backends", "is_migrated"]

SQL = load_queries(__file__, "backend.sql")
CONTRACT = Path(__file__).with_name("backend.txt")
PHASE_3 = ("capture_session", "capture_image", "day_schedule", "schedule_version")
PHASE_9 = ("day_snapshot", "schedule_event")
EVENT_KEY = ("user_id", "schedule_date", "location_fingerprint", "event_type", "old_value_hash", "new_value_hash")
OF_LEASE = "lease "
TABLE = re.compile(r"(?:table |column |key |reference |trigger \w+ on )(\w+)")
COLUMNS = re.compile(r"\(([^)]*)\)")
NAMES = {"key": "unique key of", "reference": "foreign key of"}

Connection = psycopg.Connection[Any]


def is_backends(connection: Connection, schema: str) -> bool:
    """Are the ingest tables of a schema somebody else's?"""
    found = connection.cursor(row_factory=scalar_row).execute(SQL.is_backends, {"in_schema": schema})
    return found.fetchone() is True


def is_migrated(connection: Connection) -> bool:
    """Are duly's own tables there too?"""
    return connection.cursor(row_factory=scalar_row).execute(SQL.is_migrated).fetchone() is True


def find_owner(connection: Connection, schema: str) -> str:
    """Whose the sessions are."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.find_owner, {"in_schema": schema}).fetchone() or ""


def has_owners_key(connection: Connection, schema: str) -> bool:
    """Is the key of events the contract's, without the session? Then a change that comes again has no second event."""
    return key_line(EVENT_KEY) in list_lines(connection, schema)


def list_lines(connection: Connection, schema: str) -> set[str]:
    """What there is, as lines of the contract."""
    return set(connection.cursor(row_factory=scalar_row).execute(SQL.list_lines, {"in_schema": schema}).fetchall())


def list_unfilled(connection: Connection, schema: str) -> Sequence[tuple[str, str]]:
    """The columns that a worker would have to fill."""
    rows = connection.cursor(row_factory=dict_row).execute(SQL.list_unfilled, {"in_schema": schema}).fetchall()
    return [(row["table_name"], row["column_name"]) for row in rows]


def compare_backend(connection: Connection, schema: str, states: Sequence[str]) -> Sequence[Difference]:
    """What the contract asks for and a backend's tables lack, and what would stop a worker there."""
    there = list_lines(connection, schema)
    wanted = [*lines_for(there), *(f"state {state}" for state in states)]
    missing = [line for line in wanted if sorted_columns(line.removeprefix(OF_LEASE)) not in there]
    known = {match[1] for line in wanted if (match := re.search(r"column (\S+)", line))}
    unfilled = [f"{table}.{name}" for table, name in list_unfilled(connection, schema)]
    differences = [Difference("ingest", "missing", shown(line)) for line in missing]
    if "table schedule_event" in there and not has_event_key(there):
        line = f"unique key of schedule_event ({', '.join(EVENT_KEY)}), with or without source_session_id"
        differences.append(Difference("ingest", "missing", line))
    return differences + [
        Difference("ingest", "unexpected", f"column {name}, not null and without a default: no worker fills it")
        for name in unfilled
        if name not in known
    ]


def lines_for(there: set[str]) -> list[str]:
    """The lines of the contract about the tables that must be there, or are."""
    phase_9 = PHASE_9 if any(f"table {table}" in there for table in (*PHASE_9, "schedule_notification")) else ()
    tables = {*PHASE_3, *phase_9, *(["schedule_notification"] if "table schedule_notification" in there else ())}
    lines = CONTRACT.read_text().splitlines()
    return [line for line in lines if (match := TABLE.search(line)) and match[1] in tables and has_table(line, there)]


def has_table(line: str, there: set[str]) -> bool:
    """Of a table that is missing, only that is told."""
    match = TABLE.search(line)
    assert match, f"a line of another shape: {line}"
    return line.startswith("table ") or f"table {match[1]}" in there


def has_event_key(there: set[str]) -> bool:
    """Is there a key that tells one event from another?"""
    return key_line(EVENT_KEY) in there or key_line((*EVENT_KEY, "source_session_id")) in there


def key_line(columns: Sequence[str]) -> str:
    """The line of a key of events."""
    return f"key schedule_event ({', '.join(sorted(columns))})"


def sorted_columns(line: str) -> str:
    """A line with its columns in one order: a key is the same in any."""
    return COLUMNS.sub(lambda found: f"({', '.join(sorted(found[1].split(', ')))})", line)


def shown(line: str) -> str:
    """A line in words, with what adds it where that is the lease migration."""
    plain = line.removeprefix(OF_LEASE)
    kind, _, rest = plain.partition(" ")
    words = f"{NAMES[kind]} {rest}" if kind in NAMES else plain
    return f"{words}: run the lease migration" if line.startswith(OF_LEASE) else words
