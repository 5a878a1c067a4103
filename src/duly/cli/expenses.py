"""`duly expenses`: look at the books, and write them for other programs."""

import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import BinaryIO
from zoneinfo import ZoneInfo

from duly.apps.scheduler import books, service
from duly.apps.scheduler.model import Expense
from duly.apps.scheduler.repository import BEGINNING, END
from duly.apps.scheduler.wallclock import parse_zone
from duly.cli.asking import as_api
from duly.cli.shown import tell_page, to_json
from duly.cli.whose import owner_of
from duly.cli.writing import whole_file, write_pages
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.formatting import counted
from duly.paging import Page

__all__ = ["export_expenses", "list_expenses"]

COLUMNS = ("id", "occurred_at", "name", "amount", "currency", "category", "merchant", "source_ref", "reverses")


def list_expenses(
    uid: str | None,
    since: str | None,
    until: str | None,
    zone: str,
    limit: int,
    place: str | None,
    as_json: bool,
) -> None:
    """Show a page of entries, and where the next begins."""
    bounds = between(since, until, parse_zone("--zone", zone))

    async def question(pool: Pool) -> Page[Expense]:
        owner = await owner_of(pool, uid)
        return await service.list_expenses(pool, owner, between=bounds, place=place, limit=limit)

    tell_page(as_api(question), COLUMNS, as_json)


def export_expenses(
    form: str, uid: str | None, since: str | None, until: str | None, zone: str, out: Path | None, as_json: bool
) -> None:
    """Write the books, page by page, to a file or to standard output."""
    if as_json and out is None:
        raise InvalidArgument("--json says what was written; without --out FILE that is standard output itself")
    here = parse_zone("--zone", zone)
    bounds = between(since, until, here)

    async def write(pool: Pool, file: BinaryIO) -> int:
        owner = await owner_of(pool, uid)
        pages = books.export_expenses(pool, owner, books.Format(form), between=bounds, zone=here)
        return await write_pages("exporting entries", pages, file)

    if out is None:
        as_api(lambda pool: write(pool, sys.stdout.buffer))
        sys.stdout.buffer.flush()
        return
    with whole_file(out) as file:
        entries = as_api(lambda pool: write(pool, file))
    print(
        to_json({"entries": entries, "file": str(out)})
        if as_json
        else f"exported  {counted(entries, 'entry', 'entries')} to {out}"
    )


# Within ---------------------------------------------------------------------------------------------------------------


def between(since: str | None, until: str | None, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """The instants between two days or times; without them, all there are."""
    first = moment("--from", since, zone) if since else BEGINNING
    end = moment("--to", until, zone) if until else END
    if first >= end:
        raise InvalidArgument(f"--from {since} --to {until}: the second must be later than the first")
    return first, end


def moment(place: str, text: str, zone: ZoneInfo) -> datetime:
    """The beginning of a day, or a time; without a zone of its own, in this one."""
    try:
        is_day = len(text) == len("2026-01-31")
        at = datetime.combine(date.fromisoformat(text), time()) if is_day else datetime.fromisoformat(text)
        return (at.replace(tzinfo=zone) if at.tzinfo is None else at).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidArgument(f"{place} {text[:40]}: must be a day such as 2026-01-31, or a time") from None
