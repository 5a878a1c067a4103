"""Partitions: is there a place for what comes in the next months, and did anything come that had none?"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case, Limits
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.words import quoted

__all__ = ["check_partitions"]

SQL = load_queries(__file__, "partitions.sql")
MAX_ROWS = 10_000
RUNS = "scheduler.job_runs"  # whose months a command of ours makes, with their triggers


def check_partitions(case: Case) -> Sequence[Note]:
    """Is there a place for what comes in the next months?"""
    partitions = list_partitions(case)
    notes: list[Note] = []
    for _, rows in groupby(partitions, key=lambda row: row["full_name"]):
        of_table = list(rows)
        if of_table[0]["is_by_time"]:
            notes.append(note_months(of_table, case.limits))
        notes += [note for row in of_table if row["is_default"] for note in note_strays(case, row)]
    return notes or [ok("no partitioned tables" if not partitions else "none by time, none with strays")]


def list_partitions(case: Case) -> Sequence[Row]:
    """Every partition of ours, table by table, as the worker may read it."""
    return case.ask(SQL.list_partitions, role=case.settings.worker_role, schemas=case.schemas)


def note_months(partitions: Sequence[Row], limits: Limits) -> Note:
    """How many whole months after the present one have their place, and how the next one gets it."""
    of, now = partitions[0], partitions[0]["now_at"]
    until = covered_until(now, [row for row in partitions if row["partition"] and not row["is_default"]])
    if until is None:
        return ok(f"{of['full_name']} has no end")
    ahead = max(0, (until.year - now.year) * 12 + until.month - now.month - 1)
    found = f"{of['full_name']} has partitions for {ahead} months ahead"
    if ahead >= limits.months_warn:
        return ok(found)
    how_bad = bad if ahead < limits.months_bad else warn
    if of["full_name"] == RUNS:
        return how_bad(found, "duly partitions create")
    begin = until if until > now else first_of_month(now)
    end = first_of_month(begin, months_later=1)
    name = quoted(f"{of['table']}_{begin:%Y_%m}")
    bounds = f"from ('{begin:%Y-%m-%d %H:%M}+00') to ('{end:%Y-%m-%d %H:%M}+00')"
    fix = f"create table {of['schema_name']}.{name} partition of {of['full_name']} for values {bounds}"
    return how_bad(found, fix)


def covered_until(now: datetime, partitions: Sequence[Row]) -> datetime | None:
    """The instant up to which, from now, partition follows partition; None when the last is open."""
    until = now
    for row in partitions:  # in the order of their beginnings, an open one first
        if (row["from_at"] is None or row["from_at"] <= until) and (row["to_at"] is None or until < row["to_at"]):
            if row["to_at"] is None:
                return None
            until = row["to_at"]
    return until


def first_of_month(moment: datetime, months_later: int = 0) -> datetime:
    """The beginning of a month, in the zone the moment is told in."""
    months = moment.year * 12 + moment.month - 1 + months_later
    return moment.replace(year=months // 12, month=months % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0)


def note_strays(case: Case, partition: Row) -> Sequence[Note]:
    """Rows in a default partition: they had no place when they came."""
    count, about = partition["estimated_rows"], "about "
    if partition["is_readable"]:
        count, about = count_rows(case, partition), ""
    if not count:
        return []
    table, default = partition["full_name"], partition["partition_name"]
    found = f"{about}{count}{' or more' if count == MAX_ROWS else ''} rows in the default partition {default}"
    if table == RUNS:
        return [warn(found, "duly partitions create MONTH, such as 2026-11, for each month of theirs: they move over")]
    steps = f"alter table {table} detach partition {default}; create the partitions its rows need; insert them again"
    return [warn(found, f"{steps}; attach it empty")]


def count_rows(case: Case, partition: Row) -> int:
    """How many rows a partition has, counted as the worker; MOST_ROWS stands for that or more."""
    statement = SQL.using(schema=partition["schema"], table=partition["partition"]).count_rows
    return case.ask(statement, role=case.settings.worker_role, limit=MAX_ROWS)[0]["rows"]
