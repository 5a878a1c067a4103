"""What happened to something, as commands show it: the whole of its log, in order."""

from collections.abc import Awaitable, Callable
from dataclasses import asdict

from duly.cli.asking import ask
from duly.cli.shown import print_table, to_json
from duly.db.pool import Pool
from duly.kernel.paging import Page
from duly.kernel.timeline import Transition

__all__ = ["tell_timeline"]


def tell_timeline(read: Callable[[Pool, str | None], Awaitable[Page[Transition]]], as_json: bool) -> None:
    """Print every line of a log, which is read page by page."""

    async def question(pool: Pool) -> list[Transition]:
        page = await read(pool, None)
        found = list(page.items)
        while page.next:
            page = await read(pool, page.next)
            found += page.items
        return found

    log = ask(question, lambda settings: settings.api_role)
    if as_json:
        print(to_json([asdict(each) for each in log]))
        return
    print_table(
        ("seq", "at", "from", "to", "by", "details"),
        [[each.seq, each.ts, each.prev_status, each.next_status, each.actor, each.detail_json] for each in log],
    )
