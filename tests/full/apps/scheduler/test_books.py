"""The books for other programs: the same bytes every time, which beancount accepts and spreadsheets only show."""

import csv
import io

from duly.apps.scheduler.books import Format
from tests.fast.apps.scheduler.test_books import accepted, book, export
from tests.support.scheduler.actions import ScheduleActions


async def test_the_same_books_are_the_same_bytes_whatever_came_around_them(schedules: ScheduleActions) -> None:
    book(schedules, rows=2500)
    for form in Format:
        first = await export(schedules, form)
        assert await export(schedules, form) == first
        schedules.admin.execute("set timezone = 'Asia/Shanghai'")
        schedules.add_user(f"later-{form}")
        assert await export(schedules, form) == first
    told = list(csv.reader(io.StringIO(await export(schedules, Format.CSV), newline="")))
    ids = [int(row[0]) for row in told[1:]]
    assert ids == sorted(ids)
    assert len(ids) == schedules.one("select count(*) from expense.expenses") > 2500
    accepted(await export(schedules, Format.BEANCOUNT))
