"""The event log of a row, as commands print it: complete and in order."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

from duly.cli.database_call import call_as_api
from duly.cli.output import format_instant, print_table, to_json
from duly.db.pool import Pool
from duly.jobs.model import JobEvent
from duly.lease.timeline import Transition
from duly.paging import Page

HIDDEN_DETAILS = (
    "actor",  # has a column of its own
    "traceback",  # many lines: `duly jobs show` prints the last one, and --json all of them
)
Event = TypeVar("Event", Transition, JobEvent)


def print_timeline(fetch_page: Callable[[Pool, str | None], Awaitable[Page[Event]]], as_json: bool) -> None:
    """Print every event of a log, which is fetched page by page."""

    async def fetch_all(pool: Pool) -> list[Event]:
        page = await fetch_page(pool, None)
        found = list(page.items)
        while page.next:
            page = await fetch_page(pool, page.next)
            found += page.items
        return found

    events = call_as_api(fetch_all)
    if as_json:
        print(to_json([asdict(event) for event in events]))
    else:
        print_table(("seq", "at", "from", "to", "by", "details"), [to_row(event) for event in events])


def to_row(event: Transition | JobEvent) -> list[object]:
    """Convert an event to a row of the table."""
    details = {name: value for name, value in (event.detail_json or {}).items() if name not in HIDDEN_DETAILS} or None
    return [event.seq, format_instant(event.ts), event.prev_status, event.next_status, event.actor, details]
