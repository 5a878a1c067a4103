"""`duly ingest read`: what photographs show, read here without a database."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from duly.cli.ingest import image_in
from duly.cli.shown import on_one_line, to_json
from duly.cli.watching import teller
from duly.errors import InvalidArgument, TooLarge
from duly.ingest.eyes.page import Page
from duly.ingest.photographs import NO_DATE, Eyes
from duly.settings import load_settings
from duly.wiring import eyes
from duly.worker.children import Children

__all__ = ["read_images"]

UNRELIABLE = 1
SHOWN = ("start", "end", "title", "customer", "location", "confidence")


def read_images(images: Sequence[Path], as_json: bool) -> None:
    """Read each photograph and say what it shows; exit 1 when there is a problem with one."""
    told = asyncio.run(read_all(images))
    if as_json:
        print(to_json(told))
    else:
        for each in told:
            tell(each)
    if any(each["problems"] for each in told):
        sys.exit(UNRELIABLE)


async def read_all(images: Sequence[Path]) -> list[dict[str, Any]]:
    """What every photograph shows, read one after another by one child process."""
    children = Children(1)
    try:
        looking = eyes(load_settings(), children)
        pages: list[Page] = []
        with teller(len(images)) as tell_progress:
            for nth, image in enumerate(images):
                tell_progress(nth, image.name)
                pages.append(await read_one(looking, image))
        return told_of(images, pages)
    finally:
        await children.close()


async def read_one(looking: Eyes, image: Path) -> Page:
    """What a photograph shows, or why it cannot be read."""
    try:
        return await looking.look(image_in(image))
    except (InvalidArgument, TooLarge) as error:
        return Page(None, (), (str(error),), begins=False, ends=False)


def told_of(images: Sequence[Path], pages: Sequence[Page]) -> list[dict[str, Any]]:
    """What is told of every photograph; they may be of several days, and one with a date is enough for all."""
    has_date = any(page.schedule_date for page in pages)
    return [
        {
            "file": str(image),
            "schedule_date": page.schedule_date,
            "shifts": [{name: getattr(card, name) for name in SHOWN} for card in page.shifts],
            "problems": problems_of(page, has_date),
        }
        for image, page in zip(images, pages, strict=True)
    ]


def problems_of(page: Page, has_date: bool) -> list[str]:
    """Why a photograph cannot be relied on, also for what a session of such photographs would lack."""
    if not page.shifts:
        return list(page.problems) or ["no shift was recognised"]
    return [*page.problems, *([] if has_date else [NO_DATE])]


def tell(read: dict[str, Any]) -> None:
    """A photograph for people."""
    print(f"{read['file']}  {read['schedule_date'] or 'without a date'}")
    for shift in read["shifts"]:
        words = ", ".join(filter(None, (shift["title"], shift["customer"], shift["location"])))
        print(f"  {shift['start']}\N{EN DASH}{shift['end']}  {on_one_line(words)}  ({shift['confidence']:.2f})")
    for problem in read["problems"]:
        print(f"  problem  {on_one_line(problem)}")
