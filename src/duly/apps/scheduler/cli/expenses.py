"""`duly expenses`: list the expenses, and export them for other programs."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Literal
from zoneinfo import ZoneInfo

import typer

from duly.apps.scheduler import expense_export, service
from duly.apps.scheduler.model import BEGINNING, END, Expense
from duly.apps.scheduler.wallclock import parse_zone
from duly.cli.database_call import call_as_api
from duly.cli.file_output import atomic_file, write_pages
from duly.cli.options import Cursor, Json, Limit, OnlyUser, new_group
from duly.cli.output import print_page, to_json
from duly.cli.owners import find_owner_id
from duly.cli.times import parse_time
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.formatting import pluralize
from duly.paging import Page

app = new_group("Expenses booked by schedules: list and export them.")

FormatName = Literal["csv", "beancount"]
From = Annotated[
    str | None, typer.Option("--from", metavar="DATE|TIME", help="Only from this date or time on, such as 2026-01-01.")
]
To = Annotated[
    str | None, typer.Option("--to", metavar="DATE|TIME", help="Only before this date or time, such as 2027-01-01.")
]
ListZone = Annotated[
    str | None, typer.Option("--zone", help="Zone of --from and --to, such as Europe/Stockholm. Default: local time.")
]
ExportZone = Annotated[
    str | None,
    typer.Option(
        "--zone",
        help="Zone of --from and --to (default: local time) and of the dates written (default: UTC).",
    ),
]
COLUMNS = ("id", "occurred_at", "name", "amount", "currency", "category", "merchant", "source_ref", "reverses")


@app.command("list")
def list_expenses(
    user: OnlyUser = None,
    from_: From = None,
    to: To = None,
    zone: ListZone = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    as_json: Json = False,
) -> None:
    """List expenses, in the order in which they were booked.

    Example: duly expenses list --user anna --from 2026-01-01 --to 2027-01-01
    """
    bounds = parse_bounds(from_, to, None if zone is None else parse_zone("--zone", zone))

    async def fetch(pool: Pool) -> Page[Expense]:
        owner_id = await find_owner_id(pool, user)
        return await service.list_expenses(pool, owner_id, between=bounds, cursor=cursor, limit=limit)

    print_page(call_as_api(fetch), COLUMNS, as_json)


@app.command("export")
def export_expenses(
    format_name: Annotated[FormatName, typer.Option("--format", help="The format to write.")],
    user: OnlyUser = None,
    from_: From = None,
    to: To = None,
    zone: ExportZone = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write or replace. Default: standard output.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON summary; needs --out.")] = False,
) -> None:
    """Export expenses for other programs, sorted by id: the same expenses give the same bytes.

    csv: id, user_id, occurred_at, name, amount, currency, category, merchant,
    note, source_ref and reverses, as in RFC 4180. A text that a spreadsheet
    would read as a formula gets a ' before it.

    beancount: one transaction per expense, from Assets:Unknown to
    Expenses:Category; reversals are negative. The payee is the merchant, the
    narration the name; duly_id, duly_user, occurred_at, source_ref, reverses,
    category and note are metadata. In account names, characters other than
    letters and digits become hyphens, and a name without a capital letter is
    prefixed with X-; expenses without a category go to Expenses:Uncategorised.

    Example: duly expenses export --format beancount --user anna --from 2026-01-01 --out anna.beancount
    """
    if as_json and out is None:
        raise InvalidArgument("--json needs --out FILE: without it, standard output is the export itself")
    chosen = None if zone is None else parse_zone("--zone", zone)
    bounds = parse_bounds(from_, to, chosen)

    async def write(pool: Pool, file: BinaryIO) -> int:
        owner_id = await find_owner_id(pool, user)
        pages = expense_export.export_expenses(
            pool, owner_id, expense_export.ExportFormat(format_name), between=bounds, zone=chosen or UTC
        )
        return await write_pages("exporting expenses", pages, file)

    if out is None:
        call_as_api(lambda pool: write(pool, sys.stdout.buffer))
        sys.stdout.buffer.flush()
        return
    with atomic_file(out) as file:
        entries = call_as_api(lambda pool: write(pool, file))
    summary = f"exported  {pluralize(entries, 'expense', 'expenses')} to {out}"
    print(to_json({"entries": entries, "file": str(out)}) if as_json else summary)


def parse_bounds(since: str | None, until: str | None, zone: ZoneInfo | None) -> tuple[datetime, datetime]:
    """Parse --from and --to into instants; without them, all expenses are included."""
    first = parse_time("--from", since, zone) if since is not None else BEGINNING
    end = parse_time("--to", until, zone) if until is not None else END
    if first >= end:
        raise InvalidArgument(f"--from {since} --to {until}: the second must be later than the first")
    return first, end
