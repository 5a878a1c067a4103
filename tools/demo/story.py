"""Run the chapters in order."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

import duly
from duly.accounts import service as accounts
from duly.db.pool import open_pool
from duly.errors import DulyError
from duly.settings import Settings
from duly.testing.clock import Clock
from tools.demo.job import run_job_chapter
from tools.demo.narrator import Narrator
from tools.demo.post import run_post_chapter
from tools.demo.reminder import run_reminder_chapter
from tools.demo.screenshots import run_screenshots_chapter
from tools.demo.stage import Stage, Stuck

DEMO_APP = "tools.demo.demo_jobs:app"
ANNA, TELEGRAM_ID, ZONE, CURRENCY = "anna", 42, "Europe/Stockholm", "SEK"


@dataclass(frozen=True)
class Chapter:
    """One item processed by one application from start to end."""

    title: str
    run: Callable[[Stage], Awaitable[None]]


CHAPTERS = (
    Chapter("A screenshot becomes a version, a second one a change and a message", run_screenshots_chapter),
    Chapter("A reminder is answered, and booked once", run_reminder_chapter),
    Chapter("A post is released with its reading", run_post_chapter),
    Chapter("A job fails twice and succeeds", run_job_chapter),
)


def introduce(narrator: Narrator, home: Path) -> None:
    """Print the introduction while the processes start."""
    narrator.begin(
        f"duly {duly.__version__}: one item of each application from start to end. PostgreSQL, the worker and the API "
        "are real; only the clock of the database is moved, so that hours and weeks pass in a moment.",
        f"All files are in {home}; no account is needed and nothing else is changed. Starting takes some seconds.",
    )


async def run_story(dsn: str, settings: Settings, pictures: Path, log: Path, narrator: Narrator, began: float) -> bool:
    """Run every chapter on this database; print the reason and return False if one fails."""
    chapter = "the beginning"
    try:
        async with open_pool(dsn, size=4, role=settings.api_role, name="duly-demo") as pool:
            owner = replace(pool, role=settings.owner_role)
            made = await accounts.create_person(owner, ANNA, telegram_id=TELEGRAM_ID, zone=ZONE, currency=CURRENCY)
            stage = Stage(settings, pool, Clock(dsn), pictures, log, narrator, anna=made.row)
            for number, each in enumerate(CHAPTERS, start=1):
                chapter = f"chapter {number}"
                narrator.chapter(number, each.title)
                await each.run(stage)
    except (Stuck, DulyError, psycopg.Error) as error:
        narrator.say(f"The demo stopped in {chapter}: {error}")
        narrator.say(f"The output of the worker and the API is in {log}.")
        return False
    narrator.begin("", f"The demo finished in {time.monotonic() - began:.0f} s.")
    return True
