"""Export of expenses: reproducible bytes that beancount accepts and spreadsheets do not evaluate."""

import csv
import io

from duly.apps.scheduler.expense_export import ExportFormat
from tests.fast.apps.scheduler.test_expense_export import accepted, book, export
from tests.support.scheduler.actions import ScheduleActions


async def test_exports_of_the_same_expenses_are_byte_identical(schedules: ScheduleActions) -> None:
    book(schedules, rows=2500)
    for form in ExportFormat:
        first = await export(schedules, form)
        assert await export(schedules, form) == first
        schedules.admin.execute("set timezone = 'Asia/Shanghai'")
        schedules.add_user(f"later-{form}")
        assert await export(schedules, form) == first
    rows = list(csv.reader(io.StringIO(await export(schedules, ExportFormat.CSV), newline="")))
    ids = [int(row[0]) for row in rows[1:]]
    assert ids == sorted(ids)
    assert len(ids) == schedules.one("select count(*) from expense.expenses") > 2500
    accepted(await export(schedules, ExportFormat.BEANCOUNT))
