"""Export of expenses: reproducible bytes that beancount accepts and spreadsheets do not evaluate."""

import csv
import io
from collections import defaultdict
from collections.abc import Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from beancount import loader
from beancount.core.data import Open, Transaction
from hypothesis import given
from hypothesis import strategies as st

from duly.apps.scheduler import expense_export
from duly.apps.scheduler.expense_export import CSV_COLUMNS, MONEY_ACCOUNT, ExportFormat, account_name
from duly.apps.scheduler.model import Expense
from tests.support.scheduler.actions import ScheduleActions

NASTY = [
    ("plain", "tv", "shop", "a note"),
    ('say "hi"', 'a "b" c', 'back\\slash"', "ends with \\"),
    ("two\nlines\r\nand a\ttab", "new\nline", "cr\rhere", "\n" * 80),
    ("YouTube 订阅", "电视", "优兔", "每月一次"),
    ("\N{PARTY POPPER} party", "\N{PARTY POPPER}", "\N{PARTY POPPER}", "\N{PARTY POPPER}"),
    ("=1+1", "+cmd", "-2", "@sum"),
    ("; no comment", ":::", "#tag ^link", '2026-01-01 open Assets:Mine"'),
    ("no rest", None, None, None),
    ("e\N{COMBINING ACUTE ACCENT}", "e\N{COMBINING ACUTE ACCENT}te", "\u2028", "\x01\x1b[31m\x7f"),
    ("ß", "ßig", "ŉ", "\ufeff"),
    ("digits", "2 rooms", "٣", "0"),
]


def book(schedules: ScheduleActions, rows: int = 0) -> None:
    """Insert expenses: hostile texts, a reversal, no optional fields, more than a page."""
    user, other = schedules.add_user("anna"), schedules.add_user("bo")
    add = (
        "insert into expense.expenses"
        " (user_id, name, category, merchant, note, amount, currency, occurred_at, source_ref)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
    )
    start = datetime(2026, 1, 1, 23, 30, tzinfo=UTC)
    for nth, texts in enumerate(NASTY):
        amount, currency = Decimal("9.99") + nth * Decimal("0.000001"), ("EUR", "SEK")[nth % 2]
        at = start + timedelta(days=nth)
        schedules.admin.execute(add, [(user, other)[nth % 3 == 0], *texts, amount, currency, at, f"=manual:{nth}"])
    schedules.admin.execute(add, [user, "free", "tv", None, None, Decimal(0), "EUR", start, "manual:free"])
    schedules.admin.execute(
        "insert into expense.expenses"
        " (user_id, name, category, merchant, note, amount, currency, occurred_at, source_ref, reverses)"
        " select user_id, name, category, merchant, note, -amount, currency, occurred_at + interval '1 hour',"
        " 'reversal:' || source_ref, id from expense.expenses where name in ('plain', 'free') order by id"
    )
    schedules.admin.execute(
        "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
        " select %s, 'many', 1.5, 'EUR', '2026-02-01Z', 'many:' || n from generate_series(1, %s) as n",
        [user, rows],
    )


async def export(schedules: ScheduleActions, export_format: ExportFormat, user: int | None = None, **more: Any) -> str:
    """Return a complete export as text."""
    written = b""
    async with aclosing(expense_export.export_expenses(schedules.api, user, export_format, **more)) as pages:
        async for page, done, total in pages:
            written += page
            assert done <= total
    return written.decode()


def accepted(text: str) -> list[Any]:
    """Parse with beancount, without errors."""
    entries, errors, _ = loader.load_string(text)  # pyright: ignore[reportUnknownMemberType]
    assert errors == []
    return entries


def balances(entries: Sequence[Any]) -> dict[tuple[str, str], Decimal]:
    """Return the balance of every account, by currency."""
    totals: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for entry in entries:
        if isinstance(entry, Transaction):
            for posting in entry.postings:
                assert posting.units is not None
                totals[posting.account, posting.units.currency] += posting.units.number or 0
    return dict(totals)


async def test_beancount_accepts_the_export_and_has_the_balances_of_the_database(schedules: ScheduleActions) -> None:
    book(schedules)
    entries = accepted(await export(schedules, ExportFormat.BEANCOUNT))
    expected: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for category, amount, currency in schedules.rows("select category, amount, currency from expense.expenses"):
        expected[account_name(category), currency] += amount
        expected[MONEY_ACCOUNT, currency] -= amount
    assert balances(entries) == expected
    spent = [entry for entry in entries if isinstance(entry, Transaction)]
    rows = schedules.rows(
        "select id, name, merchant, note, source_ref, reverses, category from expense.expenses order by id"
    )
    by_id = {int(entry.meta["duly_id"]): entry for entry in spent}
    assert len(by_id) == len(rows) == len(spent)
    for key, name, merchant, note, source_ref, reverses, category in rows:
        entry = by_id[key]
        assert (entry.narration, entry.payee, entry.meta.get("note")) == (name, merchant, note)
        assert (entry.meta["source_ref"], entry.meta.get("category")) == (source_ref, category)
        assert entry.meta.get("reverses") == (None if reverses is None else str(reverses))
    assert {entry.date for entry in entries if isinstance(entry, Open)} == {datetime(2026, 1, 1).date()}  # noqa: DTZ001


async def test_export_reads_all_pages_from_one_snapshot(schedules: ScheduleActions) -> None:
    book(schedules, rows=1500)
    total_before = schedules.one("select count(*) from expense.expenses")
    async with aclosing(expense_export.export_expenses(schedules.api, None, ExportFormat.CSV)) as pages:
        done = 0
        async for _, done, total in pages:
            note_one(schedules, done)
            assert total == total_before
    assert done == total_before
    assert schedules.one("select count(*) from expense.expenses") > total_before


def note_one(schedules: ScheduleActions, nth: int) -> None:
    """Insert an expense during an export."""
    schedules.admin.execute(
        "insert into expense.expenses (user_id, name, amount, currency, occurred_at, source_ref)"
        " select user_id, 'meanwhile', 1, 'EUR', duly.clock(), 'meanwhile:' || %s from duly.person limit 1",
        [nth],
    )


async def test_csv_export_round_trips_and_contains_no_formula(schedules: ScheduleActions) -> None:
    book(schedules)
    text = await export(schedules, ExportFormat.CSV)
    assert text.count("\r\n") >= len(NASTY)
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert tuple(head) == CSV_COLUMNS
    known = schedules.rows(
        "select id, name, amount, category, merchant, note, source_ref, reverses from expense.expenses order by id"
    )
    for row, (key, name, amount, category, merchant, note, source_ref, reverses) in zip(rows, known, strict=True):
        fields = dict(zip(head, row, strict=True))
        assert (int(fields["id"]), Decimal(fields["amount"])) == (key, amount)
        assert fields["reverses"] == ("" if reverses is None else str(reverses))
        texts = {"name": name, "category": category, "merchant": merchant, "note": note, "source_ref": source_ref}
        for column, value in texts.items():
            assert fields[column].removeprefix("'") == (value or "")
            assert not fields[column].startswith(("=", "+", "-", "@"))
    assert "-9.99" in {row[head.index("amount")] for row in rows}  # numbers stay numbers


async def test_an_export_is_filtered_by_user_and_time_and_formatted_in_a_zone(schedules: ScheduleActions) -> None:
    book(schedules)
    bo = schedules.add_user("bo")
    rows = list(csv.DictReader(io.StringIO(await export(schedules, ExportFormat.CSV, bo), newline="")))
    assert {row["user_id"] for row in rows} == {str(bo)}
    between = (datetime(2026, 1, 3, tzinfo=UTC), datetime(2026, 1, 4, tzinfo=UTC))
    text = await export(schedules, ExportFormat.CSV, between=between, zone=ZoneInfo("Europe/Stockholm"))
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row["occurred_at"] == "2026-01-04T00:30:00+01:00"
    text = await export(schedules, ExportFormat.BEANCOUNT, between=between, zone=ZoneInfo("Europe/Stockholm"))
    assert "\n2026-01-04 * " in text
    accepted(text)


async def test_an_export_without_expenses_is_valid(schedules: ScheduleActions) -> None:
    assert await export(schedules, ExportFormat.CSV) == ",".join(CSV_COLUMNS) + "\r\n"
    assert accepted(await export(schedules, ExportFormat.BEANCOUNT)) == []


@pytest.mark.parametrize(
    ("category", "account"),
    [
        (None, "Expenses:Uncategorised"),
        ("tv", "Expenses:Tv"),
        ("home: rent & heat", "Expenses:Home--rent---heat"),
        ("2 rooms", "Expenses:2-rooms"),
        ("电视", "Expenses:X-电视"),
        ("ßig", "Expenses:X-ßig"),
        ("ärende", "Expenses:Ärende"),
        ("\N{PARTY POPPER}", "Expenses:Uncategorised"),
    ],
)
def test_category_is_mapped_to_an_account_name(category: str | None, account: str) -> None:
    assert account_name(category) == account


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@given(name=TEXT, category=st.none() | TEXT, merchant=st.none() | TEXT, note=st.none() | TEXT, micros=st.integers(0))
def test_any_text_is_accepted_by_beancount_and_round_trips(
    name: str, category: str | None, merchant: str | None, note: str | None, micros: int
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    amount = Decimal(micros % 10**20).scaleb(-6)
    entry = Expense(1, 2, name, amount, "EUR", category, merchant, note, at, "source", None, at)
    totals = expense_export.ExportSummary(1, at, [category] if category else [], not category, ["EUR"])
    entries = accepted(expense_export.beancount_header(totals, UTC) + expense_export.to_transaction(entry, UTC))
    (spent,) = [each for each in entries if isinstance(each, Transaction)]
    assert (spent.narration, spent.payee, spent.meta.get("note")) == (name, merchant, note)
    assert balances(entries).get((MONEY_ACCOUNT, "EUR"), Decimal(0)) == -amount
    (row,) = csv.reader(io.StringIO(expense_export.to_csv([expense_export.to_csv_row(entry, UTC)]), newline=""))
    assert row[CSV_COLUMNS.index("name")].removeprefix("'") in (name, name.removeprefix("'"))
