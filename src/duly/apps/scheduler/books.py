"""The books for other programs: CSV for spreadsheets, and the plain text that beancount reads.

    2026-11-01 * "YouTube" "YouTube 订阅"
      duly_id: "17"
      source_ref: "scheduler:3:2026-11"
      Expenses:Tv       9.99 EUR
      Assets:Unknown   -9.99 EUR

The same entries give the same bytes: sorted by their id, in UTC unless another zone is asked for, of one snapshot. They
are read page by page, so that their number costs no memory. What people wrote can break neither format: a category
becomes a name that beancount takes for an account, and a cell of a spreadsheet never begins a formula.
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
from duly.apps.scheduler.model import Expense
from duly.apps.scheduler.repository import BEGINNING, END, Owner
from duly.db.pool import Pool
from duly.db.queries import load_queries
from duly.db.rows import Connection, change, get_row

__all__ = [
    "CSV_COLUMNS",
    "MONEY_ACCOUNT",
    "NO_CATEGORY",
    "Format",
    "account_of",
    "export_expenses",
    "survey",
    "take_snapshot",
]

SQL = load_queries(__file__, "books.sql")
PAGE = 1000
MONEY_ACCOUNT = "Assets:Unknown"
NO_CATEGORY = "Uncategorised"
WITHOUT_A_CAPITAL = "X-"  # goes before a category whose first character has none, such as a Chinese one
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


class Format(StrEnum):
    """What other programs read."""

    CSV = "csv"
    BEANCOUNT = "beancount"


@dataclass(frozen=True)
class Survey:
    """What an export will hold."""

    entries: int
    first_at: datetime | None
    categories: Sequence[str]
    has_uncategorised: bool
    currencies: Sequence[str]


async def export_expenses(
    pool: Pool,
    user_id: Owner,
    form: Format,
    *,
    between: tuple[datetime, datetime] = (BEGINNING, END),
    zone: tzinfo = UTC,
) -> AsyncGenerator[tuple[bytes, int, int], None]:
    """The books page by page, each with how many entries were told by then, and of how many."""
    done, after = 0, 0
    async with pool.transaction() as connection:
        await take_snapshot(connection)
        found = await survey(connection, user_id, between)
        heading = csv_of([CSV_COLUMNS]) if form is Format.CSV else heading_of(found, zone)
        yield heading.encode(), 0, found.entries
        while page := await repository.list_expenses(connection, user_id, between=between, after=after, limit=PAGE):
            done, after = done + len(page), page[-1].id
            yield text_of(page, form, zone).encode(), done, found.entries


async def take_snapshot(connection: Connection) -> None:
    """See for the rest of this transaction what is there now."""
    await change(connection, SQL.take_snapshot)


async def survey(connection: Connection, user_id: Owner, between: tuple[datetime, datetime]) -> Survey:
    """What there is to export."""
    row = await get_row(connection, SQL.survey, user_id=user_id, from_at=between[0], to_at=between[1])
    return Survey(**row)


def text_of(page: Sequence[Expense], form: Format, zone: tzinfo) -> str:
    """Some entries in the form that was asked for."""
    if form is Format.CSV:
        return csv_of(row_of(entry, zone) for entry in page)
    return "".join(transaction_of(entry, zone) for entry in page)


# CSV ------------------------------------------------------------------------------------------------------------------


def csv_of(rows: Iterable[Sequence[object]]) -> str:
    """Lines as RFC 4180 has them."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue()


def row_of(entry: Expense, zone: tzinfo) -> Sequence[object]:
    """An entry as a line of CSV."""
    return (
        entry.id,
        entry.user_id,
        entry.occurred_at.astimezone(zone).isoformat(),
        harmless(entry.name),
        plain(entry.amount),
        entry.currency,
        harmless(entry.category),
        harmless(entry.merchant),
        harmless(entry.note),
        harmless(entry.source_ref),
        entry.reverses,
    )


def harmless(text: str | None) -> str | None:
    """A cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text and text.startswith(FORMULA) else text


# Beancount ------------------------------------------------------------------------------------------------------------


def heading_of(found: Survey, zone: tzinfo) -> str:
    """What stands before the first entry: the currencies, and every account, opened on the day of the first entry."""
    lines = [f'option "operating_currency" "{currency}"' for currency in sorted(found.currencies)]
    if found.first_at:
        accounts = {account_of(category) for category in found.categories} | {MONEY_ACCOUNT}
        if found.has_uncategorised:
            accounts.add(account_of(None))
        lines += ["", *(f"{day_of(found.first_at, zone)} open {account}" for account in sorted(accounts))]
    return "".join(f"{line}\n" for line in lines)


def transaction_of(entry: Expense, zone: tzinfo) -> str:
    """An entry as a transaction; a reversal is one with its amounts turned around."""
    known = {
        "duly_id": str(entry.id),
        "duly_user": str(entry.user_id),
        "occurred_at": entry.occurred_at.astimezone(UTC).isoformat(),
        "source_ref": entry.source_ref,
        "reverses": None if entry.reverses is None else str(entry.reverses),
        "category": entry.category,
        "note": entry.note,
    }
    payee = f"{quoted(entry.merchant)} " if entry.merchant else ""
    lines = [
        "",
        f"{day_of(entry.occurred_at, zone)} * {payee}{quoted(entry.name)}",
        *(f"  {name}: {quoted(value)}" for name, value in known.items() if value is not None),
        f"  {account_of(entry.category)}  {plain(entry.amount)} {entry.currency}",
        f"  {MONEY_ACCOUNT}  {plain(-entry.amount)} {entry.currency}",
    ]
    return "".join(f"{line}\n" for line in lines)


def account_of(category: str | None) -> str:
    """The account of a category: letters, digits and hyphens, of which the first is a capital or a digit."""
    composed = unicodedata.normalize("NFC", category or "")
    kept = "".join(each if is_letter_or_digit(each) else "-" for each in composed).strip("-")
    if not kept:
        return f"Expenses:{NO_CATEGORY}"
    first = kept[0].upper()
    if len(first) == 1 and unicodedata.category(first) in ("Lu", "Nd"):
        return f"Expenses:{first}{kept[1:]}"
    return f"Expenses:{WITHOUT_A_CAPITAL}{kept}"


def is_letter_or_digit(character: str) -> bool:
    """May this stand in the name of an account?"""
    return (kind := unicodedata.category(character)).startswith("L") or kind == "Nd"


def quoted(text: str) -> str:
    """A text between quotation marks, with nothing in it that ends it."""
    return f'"{text.translate(ESCAPES)}"'


def day_of(at: datetime, zone: tzinfo) -> str:
    """The day that an instant lies in."""
    return at.astimezone(zone).date().isoformat()


def plain(amount: Decimal) -> str:
    """An amount in digits, two of them after the point or as many as it needs."""
    whole, _, rest = f"{amount:f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"
