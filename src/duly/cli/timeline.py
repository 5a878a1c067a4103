"""What happened to something, as commands show it: the whole of its log, in order."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import TypeVar

from duly.cli.asking import as_api
from duly.cli.shown import instant_of, print_table, to_json
from duly.db.pool import Pool
from duly.jobs.model import JobEvent
from duly.lease.timeline import Transition
from duly.paging import Page

__all__ = ["tell_timeline"]

ACTOR = "actor"  # a job's log has it among the details
TRACEBACK = "traceback"  # many lines: `duly jobs show` prints the last one, and --json all of them
Line = TypeVar("Line", Transition, JobEvent)


def tell_timeline(read: Callable[[Pool, str | None], Awaitable[Page[Line]]], as_json: bool) -> None:
    """Print every line of a log, which is read page by page."""

    async def question(pool: Pool) -> list[Line]:
        page = await read(pool, None)
        found = list(page.items)
        while page.next:
            page = await read(pool, page.next)
            found += page.items
        return found

    log = as_api(question)
    if as_json:
        print(to_json([asdict(each) for each in log]))
        return
    print_table(
        ("seq", "at", "from", "to", "by", "details"),
        [
            [each.seq, instant_of(each.ts), each.prev_status, each.next_status, each.actor, details_of(each)]
            for each in log
        ],
    )


def row_of(line: Transition | JobEvent) -> list[object]:
    """A line of a log as a row."""
    return [line.seq, instant_of(line.ts), line.prev_status, line.next_status, line.actor, details_of(line)]


def details_of(line: Transition | JobEvent) -> dict[str, object] | None:
    """What else there is to say."""
    return {name: value for name, value in (line.detail_json or {}).items() if name not in (ACTOR, TRACEBACK)} or None
