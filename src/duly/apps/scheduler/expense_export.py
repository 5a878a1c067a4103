"""Export expenses for other programs: CSV for spreadsheets, and the plain-text format of beancount.

    2026-11-01 * "YouTube" "YouTube 订阅"
      duly_id: "17"
      source_ref: "scheduler:3:2026-11"
      Expenses:Tv       9.99 EUR
      Assets:Unknown   -9.99 EUR

The same expenses give the same bytes: sorted by id, in UTC unless another zone is given, from one snapshot. They are
read page by page, so that memory does not grow with their number. User input cannot break either format: a category
becomes a valid beancount account name, and no spreadsheet cell starts a formula.
"""

import csv
import io
import unicodedata
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from enum import StrEnum

from duly.apps.scheduler import repository
from duly.apps.scheduler.model import BEGINNING, END, Expense
from duly.apps.scheduler.repository import UserScope
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, execute, get_row

SQL = load_queries(__file__, "expense_export.sql")
PAGE_SIZE = 1000
MONEY_ACCOUNT = "Assets:Unknown"
NO_CATEGORY = "Uncategorised"
UNCASED_PREFIX = "X-"  # precedes a category whose first character has no capital form, for example a Chinese one
CSV_COLUMNS = (
    "id",
    "user_id",
    "occurred_at",
    "name",
    "amount",
    "currency",
    "category",
    "merchant",
    "note",
    "source_ref",
    "reverses",
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


class ExportFormat(StrEnum):
    """The formats of an export."""

    CSV = "csv"
    BEANCOUNT = "beancount"


@dataclass(frozen=True)
class ExportSummary:
    """What an export contains."""

    entries: int
    first_at: datetime | None
    categories: Sequence[str]
    has_uncategorised: bool
    currencies: Sequence[str]


async def export_expenses(
    pool: Pool,
    user_id: UserScope,
    export_format: ExportFormat,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    zone: tzinfo = UTC,
) -> AsyncGenerator[tuple[bytes, int, int], None]:
    """Yield the export page by page, each with the number of expenses so far and in total."""
    done, after = 0, 0
    async with pool.transaction() as connection:
        await use_snapshot(connection)
        summary = await summarize_export(connection, user_id, between)
        heading = to_csv([CSV_COLUMNS]) if export_format is ExportFormat.CSV else beancount_header(summary, zone)
        yield heading.encode(), 0, summary.entries
        while page := await repository.list_expenses(
            connection, user_id, between=between, after=after, limit=PAGE_SIZE
        ):
            done, after = done + len(page), page[-1].id
            yield format_page(page, export_format, zone).encode(), done, summary.entries


async def use_snapshot(connection: Connection) -> None:
    """Read from one snapshot for the rest of this transaction."""
    await execute(connection, SQL.use_snapshot)


async def summarize_export(
    connection: Connection, user_id: UserScope, between: tuple[datetime, datetime]
) -> ExportSummary:
    """Return the summary of an export."""
    row = await get_row(connection, SQL.summarize_export, user_id=user_id, from_at=between[0], to_at=between[1])
    return ExportSummary(**row)


def format_page(page: Sequence[Expense], export_format: ExportFormat, zone: tzinfo) -> str:
    """Format a page of expenses."""
    if export_format is ExportFormat.CSV:
        return to_csv(to_csv_row(entry, zone) for entry in page)
    return "".join(to_transaction(entry, zone) for entry in page)


# CSV ------------------------------------------------------------------------------------------------------------------


def to_csv(rows: Iterable[Sequence[object]]) -> str:
    """Format rows as CSV (RFC 4180)."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def to_csv_row(entry: Expense, zone: tzinfo) -> Sequence[object]:
    """Return an expense as a CSV row."""
    return (
        entry.id,
        entry.user_id,
        entry.occurred_at.astimezone(zone).isoformat(),
        escape_formula(entry.name),
        format_with_decimals(entry.amount),
        entry.currency,
        escape_formula(entry.category),
        escape_formula(entry.merchant),
        escape_formula(entry.note),
        escape_formula(entry.source_ref),
        entry.reverses,
    )


def escape_formula(text: str | None) -> str | None:
    """Return a cell that no spreadsheet evaluates as a formula."""
    return f"'{text}" if text and text.startswith(FORMULA) else text


# Beancount ------------------------------------------------------------------------------------------------------------


def beancount_header(summary: ExportSummary, zone: tzinfo) -> str:
    """Return the directives before the first transaction: currencies, and accounts opened on the first day."""
    lines = [f'option "operating_currency" "{currency}"' for currency in sorted(summary.currencies)]
    if summary.first_at:
        accounts = {account_name(category) for category in summary.categories} | {MONEY_ACCOUNT}
        if summary.has_uncategorised:
            accounts.add(account_name(None))
        lines += ["", *(f"{format_date(summary.first_at, zone)} open {account}" for account in sorted(accounts))]
    return "".join(f"{line}\n" for line in lines)


def to_transaction(entry: Expense, zone: tzinfo) -> str:
    """Return an expense as a beancount transaction; a reversal has the opposite amounts."""
    metadata = {
        "duly_id": str(entry.id),
        "duly_user": str(entry.user_id),
        "occurred_at": entry.occurred_at.astimezone(UTC).isoformat(),
        "source_ref": entry.source_ref,
        "reverses": None if entry.reverses is None else str(entry.reverses),
        "category": entry.category,
        "note": entry.note,
    }
    payee = f"{quote(entry.merchant)} " if entry.merchant else ""
    lines = [
        "",
        f"{format_date(entry.occurred_at, zone)} * {payee}{quote(entry.name)}",
        *(f"  {name}: {quote(value)}" for name, value in metadata.items() if value is not None),
        f"  {account_name(entry.category)}  {format_with_decimals(entry.amount)} {entry.currency}",
        f"  {MONEY_ACCOUNT}  {format_with_decimals(-entry.amount)} {entry.currency}",
    ]
    return "".join(f"{line}\n" for line in lines)


def account_name(category: str | None) -> str:
    """Return the account of a category: letters, digits and hyphens, starting with a capital letter or a digit."""
    composed = unicodedata.normalize("NFC", category or "")
    kept = "".join(each if is_letter_or_digit(each) else "-" for each in composed).strip("-")
    if not kept:
        return f"Expenses:{NO_CATEGORY}"
    first = kept[0].upper()
    if len(first) == 1 and unicodedata.category(first) in ("Lu", "Nd"):
        return f"Expenses:{first}{kept[1:]}"
    return f"Expenses:{UNCASED_PREFIX}{kept}"


def is_letter_or_digit(character: str) -> bool:
    """Return whether an account name may contain this character."""
    return (category := unicodedata.category(character)).startswith("L") or category == "Nd"


def quote(text: str) -> str:
    """Return the text as a quoted beancount string."""
    return f'"{text.translate(ESCAPES)}"'


def format_date(at: datetime, zone: tzinfo) -> str:
    """Format the date of an instant in a zone."""
    return at.astimezone(zone).date().isoformat()


def format_with_decimals(amount: Decimal) -> str:
    """Format an amount with two decimal places, or as many as it needs."""
    units, _, rest = f"{amount:f}".partition(".")
    return f"{units}.{rest.rstrip('0').ljust(2, '0')}"
