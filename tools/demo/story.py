"""The chapters in their order, told on a stage that is set for them."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

import duly
from duly.accounts import service as people
from duly.db.pool import open_pool
from duly.errors import DulyError
from duly.settings import Settings
from duly.testing.clock import Clock
from tools.demo.job import tell_job
from tools.demo.narrator import Narrator
from tools.demo.post import tell_post
from tools.demo.reminder import tell_reminder
from tools.demo.screenshots import tell_screenshots
from tools.demo.stage import Stage, Stuck

ERRANDS = "tools.demo.errands:app"
ANNA, TELEGRAM_ID, ZONE, CURRENCY = "anna", 42, "Europe/Stockholm", "SEK"


@dataclass(frozen=True)
class Chapter:
    """One item's way through a domain."""

    title: str
    tell: Callable[[Stage], Awaitable[None]]


CHAPTERS = (
    Chapter("A screenshot becomes a version, a second one a change and a message", tell_screenshots),
    Chapter("A reminder is answered, and booked once", tell_reminder),
    Chapter("A post is released with its reading", tell_post),
    Chapter("A job fails twice and succeeds", tell_job),
)


def tell_what_it_is(tell: Narrator, home: Path) -> None:
    """The first lines, while everything starts."""
    tell.begin(
        f"duly {duly.__version__}: one item through each of its domains, to its end. All of it is real: PostgreSQL, a "
        "worker, the API. Only time is not: the clock of this database is moved, and hours and weeks pass in a moment.",
        f"It lives in {home}, needs no account, and touches nothing else of yours. Starting; that takes some seconds.",
    )


async def tell_story(dsn: str, settings: Settings, pictures: Path, log: Path, tell: Narrator, began: float) -> bool:
    """Tell every chapter, on the database at this address; False when one did not come to its end, and why is told."""
    chapter = "the beginning"
    try:
        async with open_pool(dsn, size=4, role=settings.api_role, name="duly-demo") as pool:
            owner = replace(pool, role=settings.owner_role)
            made = await people.create_user(owner, ANNA, telegram_id=TELEGRAM_ID, zone=ZONE, currency=CURRENCY)
            stage = Stage(settings, pool, Clock(dsn), pictures, log, tell, anna=made.row)
            for number, each in enumerate(CHAPTERS, start=1):
                chapter = f"chapter {number}"
                tell.chapter(number, each.title)
                await each.tell(stage)
    except (Stuck, DulyError, psycopg.Error) as error:
        tell.say(f"The story ends here, in {chapter}: {error}")
        tell.say(f"What the worker and the API said is in {log}.")
        return False
    tell.begin("", f"That was all of it, in {time.monotonic() - began:.0f} s.")
    return True
