"""Compares ingest tables that a backend owns with the contract and with the additions of the lease migration.

`backend.txt` is the contract of the tables, line by line: `null` and `not null` where the contract has it, nothing
where it does not. Names of constraints, additional columns and tables, checks and triggers are up to the backend.
Tables of Phases 9 and 12 are optional; those of Phase 9 exist together.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row, scalar_row

from duly.db.queries import load_queries
from duly.verify.contract import Difference

SQL = load_queries(__file__, "backend.sql")
CONTRACT = Path(__file__).with_name("backend.txt")
PHASE_3 = ("capture_session", "capture_image", "day_schedule", "schedule_version")
PHASE_9 = ("day_snapshot", "schedule_event")
EVENT_KEY = ("user_id", "schedule_date", "location_fingerprint", "event_type", "old_value_hash", "new_value_hash")
LEASE_PREFIX = "lease "
TABLE = re.compile(r"(?:table |column |key |reference |trigger \w+ on )(\w+)")
COLUMNS = re.compile(r"\(([^)]*)\)")
NAMES = {"key": "unique key of", "reference": "foreign key of"}

Connection = psycopg.Connection[Any]


def is_owned_by_backend(connection: Connection, schema: str) -> bool:
    """Return whether the ingest tables of a schema belong to a backend."""
    found = connection.cursor(row_factory=scalar_row).execute(SQL.is_owned_by_backend, {"in_schema": schema})
    return found.fetchone() is True


def is_migrated(connection: Connection) -> bool:
    """Return whether duly's own tables exist too."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.is_migrated).fetchone() is True


def find_owner(connection: Connection, schema: str) -> str:
    """Return the owner of the table of sessions."""
    return connection.cursor(row_factory=scalar_row).execute(SQL.find_owner, {"in_schema": schema}).fetchone() or ""


def has_contract_event_key(connection: Connection, schema: str) -> bool:
    """Return whether the unique key of events is the contract's, without the session: then no change has two events."""
    return key_line(EVENT_KEY) in list_lines(connection, schema)


def list_lines(connection: Connection, schema: str) -> set[str]:
    """Return the existing objects as lines of the contract."""
    return set(connection.cursor(row_factory=scalar_row).execute(SQL.list_lines, {"in_schema": schema}).fetchall())


def list_required_columns(connection: Connection, schema: str) -> Sequence[tuple[str, str]]:
    """Return the columns that an insert must fill: not null, without a default."""
    rows = connection.cursor(row_factory=dict_row).execute(SQL.list_required_columns, {"in_schema": schema}).fetchall()
    return [(row["table_name"], row["column_name"]) for row in rows]


def compare_backend(connection: Connection, schema: str, states: Sequence[str]) -> Sequence[Difference]:
    """Return what the contract has and a backend's tables lack, and columns that would make inserts fail."""
    found_lines = list_lines(connection, schema)
    expected_lines = [*list_contract_lines(found_lines), *(f"state {state}" for state in states)]
    missing = [line for line in expected_lines if sorted_columns(line.removeprefix(LEASE_PREFIX)) not in found_lines]
    known = {match[1] for line in expected_lines if (match := re.search(r"column (\S+)", line))}
    unfilled = [f"{table}.{name}" for table, name in list_required_columns(connection, schema)]
    differences = [Difference("ingest", "missing", format_line(line)) for line in missing]
    if "table schedule_event" in found_lines and not has_event_key(found_lines):
        line = f"unique key of schedule_event ({', '.join(EVENT_KEY)}), with or without source_session_id"
        differences.append(Difference("ingest", "missing", line))
    return differences + [
        Difference("ingest", "unexpected", f"column {name}, not null and without a default: workers do not set it")
        for name in unfilled
        if name not in known
    ]


def list_contract_lines(found_lines: set[str]) -> list[str]:
    """Return the lines of the contract about the tables that are required or exist."""
    phase_9 = PHASE_9 if any(f"table {table}" in found_lines for table in (*PHASE_9, "schedule_notification")) else ()
    tables = {*PHASE_3, *phase_9, *(["schedule_notification"] if "table schedule_notification" in found_lines else ())}
    lines = CONTRACT.read_text().splitlines()
    return [
        line for line in lines if (match := TABLE.search(line)) and match[1] in tables and has_table(line, found_lines)
    ]


def has_table(line: str, found_lines: set[str]) -> bool:
    """Return whether this line names a table or is about an existing one: a missing table is reported by one line."""
    match = TABLE.search(line)
    assert match, f"unexpected format of a line: {line}"
    return line.startswith("table ") or f"table {match[1]}" in found_lines


def has_event_key(found_lines: set[str]) -> bool:
    """Return whether there is a unique key that identifies an event."""
    return key_line(EVENT_KEY) in found_lines or key_line((*EVENT_KEY, "source_session_id")) in found_lines


def key_line(columns: Sequence[str]) -> str:
    """Return the contract line of a unique key of events."""
    return f"key schedule_event ({', '.join(sorted(columns))})"


def sorted_columns(line: str) -> str:
    """Sort the columns of a line, since the order of a key does not matter."""
    return COLUMNS.sub(lambda found: f"({', '.join(sorted(found[1].split(', ')))})", line)


def format_line(line: str) -> str:
    """Format a line for people, with a hint if the lease migration adds it."""
    bare = line.removeprefix(LEASE_PREFIX)
    kind, _, rest = bare.partition(" ")
    text = f"{NAMES[kind]} {rest}" if kind in NAMES else bare
    return f"{text}: run the lease migration" if line.startswith(LEASE_PREFIX) else text
