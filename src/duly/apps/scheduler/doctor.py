"""Partitions: for the coming months, and rows in default partitions."""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext, Limits
from duly.doctor.finding import Note, bad, ok, warn
from duly.verify.access import quote_identifier

SQL = load_queries(__file__, "doctor.sql")
MAX_ROWS = 10_000
RUNS = "scheduler.job_runs"  # `duly partitions create` creates its months, with their triggers


def check_partitions(context: CheckContext) -> Sequence[Note]:
    """Check that there are partitions for the coming months, and no rows in default partitions."""
    partitions = list_partitions(context)
    notes: list[Note] = []
    for _, rows in groupby(partitions, key=lambda row: row["full_name"]):
        partitions_of_table = list(rows)
        if partitions_of_table[0]["is_by_time"]:
            notes.append(note_months(partitions_of_table, context.limits))
        notes += [note for row in partitions_of_table if row["is_default"] for note in note_default_rows(context, row)]
    return notes or [ok("no partitioned tables" if not partitions else "none by time, no rows in a default partition")]


def list_partitions(context: CheckContext) -> Sequence[Row]:
    """Return every partition of duly's tables, table by table, as the worker role."""
    return context.query(SQL.list_partitions, role=context.settings.worker_role, schemas=context.schemas)


def note_months(partitions: Sequence[Row], limits: Limits) -> Note:
    """Note how many full months after the current one have partitions, with the fix if too few."""
    table, now = partitions[0], partitions[0]["now_at"]
    until = covered_until(now, [row for row in partitions if row["partition"] and not is_open_ended(row)])
    if until is None:
        return ok(f"{table['full_name']} has no end")
    ahead = max(0, (until.year - now.year) * 12 + until.month - now.month - 1)
    found = f"{table['full_name']} has partitions for {ahead} months ahead"
    if ahead >= limits.months_warn:
        return ok(found)
    make_note = bad if ahead < limits.months_bad else warn
    if table["full_name"] == RUNS:
        return make_note(found, "duly partitions create")
    begin = until if until > now else first_of_month(now)
    end = first_of_month(begin, months_later=1)
    name = quote_identifier(f"{table['table']}_{begin:%Y_%m}")
    bounds = f"from ('{begin:%Y-%m-%d %H:%M}+00') to ('{end:%Y-%m-%d %H:%M}+00')"
    fix = f"create table {table['schema_name']}.{name} partition of {table['full_name']} for values {bounds}"
    return make_note(found, fix)


def is_open_ended(partition: Row) -> bool:
    """Return whether a partition has the rows without a month of their own."""
    return partition["is_default"] or (partition["full_name"] == RUNS and partition["to_at"] is None)


def covered_until(now: datetime, partitions: Sequence[Row]) -> datetime | None:
    """Return the end of the contiguous partitions from now on; None when the last is unbounded."""
    until = now
    for row in partitions:  # in the order of their lower bounds, an unbounded one first
        if (row["from_at"] is None or row["from_at"] <= until) and (row["to_at"] is None or until < row["to_at"]):
            if row["to_at"] is None:
                return None
            until = row["to_at"]
    return until


def first_of_month(moment: datetime, months_later: int = 0) -> datetime:
    """Return the beginning of a month, in the time zone of the given time."""
    months = moment.year * 12 + moment.month - 1 + months_later
    return moment.replace(year=months // 12, month=months % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0)


def note_default_rows(context: CheckContext, partition: Row) -> Sequence[Note]:
    """Note rows in a default partition: no other matched when they were inserted."""
    count, about = partition["estimated_rows"], "about "
    if partition["is_readable"]:
        count, about = count_rows(context, partition), ""
    if not count:
        return []
    table, default = partition["full_name"], partition["partition_name"]
    found = f"{about}{count}{' or more' if count == MAX_ROWS else ''} rows in the default partition {default}"
    steps = f"alter table {table} detach partition {default}; create the partitions its rows need; insert them again"
    return [warn(found, f"{steps}; attach it empty")]


def count_rows(context: CheckContext, partition: Row) -> int:
    """Count the rows of a partition as the worker role, up to MAX_ROWS."""
    statement = SQL.using(schema=partition["schema"], table=partition["partition"]).count_rows
    return context.query(statement, role=context.settings.worker_role, limit=MAX_ROWS)[0]["rows"]
