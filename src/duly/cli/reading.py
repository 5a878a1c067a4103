"""`duly ingest read`: what photographs show, read here without a database."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duly.apps.ingest.ocr.page import Page
from duly.apps.ingest.photographs import NO_DATE, Eyes
from duly.cli.ingest import image_in
from duly.cli.shown import on_one_line, to_json
from duly.cli.watching import teller
from duly.errors import InvalidArgument, TooLarge
from duly.executors.process_pool import Children
from duly.formatting import counted
from duly.settings import load_settings
from duly.wiring import eyes

__all__ = ["read_images"]

UNRELIABLE = 1
SHOWN = ("start", "end", "title", "customer", "location", "confidence")


def read_images(images: Sequence[Path], as_json: bool) -> None:
    """Read each photograph and print the days that it shows; exit 1 when there is a problem with one."""
    read = asyncio.run(read_all(images))
    if as_json:
        print(to_json(read))
    else:
        for each in read:
            print_image(each)
    if any(day["problems"] for each in read for day in each["days"]):
        sys.exit(UNRELIABLE)


async def read_all(images: Sequence[Path]) -> list[dict[str, Any]]:
    """What every photograph shows, read one after another by one child process."""
    children = Children(1)
    try:
        looking = eyes(load_settings(), children)
        pages: list[tuple[Page, ...]] = []
        with teller(len(images)) as tell_progress:
            for nth, image in enumerate(images):
                tell_progress(nth, image.name)
                pages.append(await read_one(looking, image))
        return told_of(images, pages)
    finally:
        await children.close()


async def read_one(looking: Eyes, image: Path) -> tuple[Page, ...]:
    """What a photograph shows, or why it cannot be read."""
    try:
        return await looking.look(image_in(image))
    except (InvalidArgument, TooLarge) as error:
        return (Page(None, (), (str(error),), begins=False, ends=False),)


def told_of(images: Sequence[Path], photographs: Sequence[Sequence[Page]]) -> list[dict[str, Any]]:
    """What is told of every photograph, day by day; one with a date is enough for all."""
    has_date = any(page.schedule_date for pages in photographs for page in pages)
    return [
        {"file": str(image), "days": [told_of_day(page, pages, has_date) for page in pages]}
        for image, pages in zip(images, photographs, strict=True)
    ]


def told_of_day(page: Page, pages: Sequence[Page], has_date: bool) -> dict[str, Any]:
    """What is told of one day of a photograph."""
    return {
        "schedule_date": page.schedule_date,
        "is_whole": bool(page.shifts) and page.begins and page.ends,
        "shifts": [{name: getattr(card, name) for name in SHOWN} for card in page.shifts],
        "problems": problems_of(page, pages, has_date),
        "notes": list(page.notes),
    }


def problems_of(page: Page, pages: Sequence[Page], has_date: bool) -> list[str]:
    """Why a day cannot be relied on, also for what a session of such photographs would lack.

    A day off among others is no problem: a session leaves it as it is known.
    """
    if not any(each.shifts for each in pages):
        return list(page.problems) or ["no shift was recognised"]
    return [*page.problems, *([] if has_date else [NO_DATE])]


def print_image(read: dict[str, Any]) -> None:
    """Print a photograph for people: its day beside its name, or several below it."""
    days = read["days"]
    if len(days) == 1:
        print(f"{read['file']}  {days[0]['schedule_date'] or 'without a date'}")
        print_day(days[0], "  ")
        return
    print(f"{read['file']}  {counted(len(days), 'day', 'days')}")
    for day in days:
        part = "" if day["is_whole"] else ", in part" if day["shifts"] else ", no shift"
        print(f"  {day['schedule_date']}{part}")
        print_day(day, "    ")


def print_day(day: dict[str, Any], indent: str) -> None:
    """Print the shifts of a day, its problems, and what is odd."""
    for shift in day["shifts"]:
        words = ", ".join(filter(None, (shift["title"], shift["customer"], shift["location"])))
        print(f"{indent}{shift['start']}\N{EN DASH}{shift['end']}  {on_one_line(words)}  ({shift['confidence']:.2f})")
    for problem in day["problems"]:
        print(f"{indent}problem  {on_one_line(problem)}")
    for note in day["notes"]:
        print(f"{indent}note  {on_one_line(note)}")
