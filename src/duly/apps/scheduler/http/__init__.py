"""The HTTP routes of the scheduler: schedules, runs, answers and expenses, the calendar, and the page behind a link."""

from duly.apps.scheduler.http import answer, calendar, runs, schedules
from duly.http.application import HttpPart

HTTP = HttpPart(
    (
        schedules.schedules,
        runs.runs,
        runs.confirmations,
        runs.expenses,
        calendar.addresses,
        calendar.feeds,
        answer.router,
    )
)
