"""`duly ingest read`: recognise photographs on this machine, without a database."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from duly.apps.ingest.build_work import build_ocr_runner
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.apps.ingest.pages import NO_DATE
from duly.apps.ingest.photographs import OcrRunner
from duly.cli.options import Json
from duly.cli.output import single_line, to_json
from duly.cli.progress import step_progress
from duly.errors import InvalidArgument, TooLarge
from duly.executors.process_pool import ProcessPool
from duly.formatting import pluralize
from duly.settings import load_settings
from duly.storage import MAX_PHOTO_BYTES

app = typer.Typer()

HAS_PROBLEMS = 1
SHIFT_FIELDS = ("start", "end", "title", "customer", "location", "confidence")


@app.command("read")
def read_images(
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGE", help="Photographs, of one day or several.", exists=True, dir_okay=False),
    ],
    as_json: Json = False,
) -> None:
    """Recognise photographs on this machine and print their shifts; nothing is stored. Exit 1 on a problem.

    Example: duly ingest read day.png
    """
    documents = asyncio.run(read_all(images))
    if as_json:
        print(to_json(documents))
    else:
        for document in documents:
            print_image(document)
    if any(day["problems"] for document in documents for day in document["days"]):
        sys.exit(HAS_PROBLEMS)


async def read_all(images: Sequence[Path]) -> list[dict[str, Any]]:
    """Recognise the photographs one after another, in one child process."""
    process_pool = ProcessPool(1)
    try:
        ocr = build_ocr_runner(load_settings(), process_pool)
        pages: list[tuple[RecognisedDay, ...]] = []
        with step_progress(len(images)) as show_step:
            for nth, image in enumerate(images):
                show_step(nth, image.name)
                pages.append(await read_one(ocr, image))
        return to_documents(images, pages)
    finally:
        await process_pool.close()


async def read_one(ocr: OcrRunner, image: Path) -> tuple[RecognisedDay, ...]:
    """Recognise the days of a photograph; one that cannot be read is a page with that problem."""
    try:
        return await ocr.recognise(read_image_file(image))
    except (InvalidArgument, TooLarge) as error:
        return (RecognisedDay(None, (), (str(error),), shows_day_start=False, shows_day_end=False),)


def to_documents(images: Sequence[Path], photographs: Sequence[Sequence[RecognisedDay]]) -> list[dict[str, Any]]:
    """Convert the pages of each photograph to JSON fields; a date on one photograph is enough for all."""
    has_date = any(page.schedule_date for pages in photographs for page in pages)
    return [
        {"file": str(image), "days": [day_to_document(page, pages, has_date) for page in pages]}
        for image, pages in zip(images, photographs, strict=True)
    ]


def day_to_document(page: RecognisedDay, pages: Sequence[RecognisedDay], has_date: bool) -> dict[str, Any]:
    """Convert a day of a photograph to JSON fields."""
    return {
        "schedule_date": page.schedule_date,
        "is_whole": bool(page.shifts) and page.shows_day_start and page.shows_day_end,
        "shifts": [{name: getattr(shift, name) for name in SHIFT_FIELDS} for shift in page.shifts],
        "problems": list_problems(page, pages, has_date),
        "notes": list(page.notes),
    }


def list_problems(page: RecognisedDay, pages: Sequence[RecognisedDay], has_date: bool) -> list[str]:
    """List the reasons for which a capture session of these photographs would fail.

    A day off among others is no problem: a session leaves that day unchanged.
    """
    if not any(each.shifts for each in pages):
        return list(page.problems) or ["no shift was recognised"]
    return [*page.problems, *([] if has_date else [NO_DATE])]


def print_image(document: dict[str, Any]) -> None:
    """Print the name of a photograph and its day on one line, or several days below it."""
    days = document["days"]
    if len(days) == 1:
        print(f"{document['file']}  {days[0]['schedule_date'] or 'without a date'}")
        print_day(days[0], "  ")
        return
    print(f"{document['file']}  {pluralize(len(days), 'day', 'days')}")
    for day in days:
        part = "" if day["is_whole"] else ", in part" if day["shifts"] else ", no shift"
        print(f"  {day['schedule_date']}{part}")
        print_day(day, "    ")


def print_day(day: dict[str, Any], indent: str) -> None:
    """Print the shifts, problems and notes of a day."""
    for shift in day["shifts"]:
        text = ", ".join(filter(None, (shift["title"], shift["customer"], shift["location"])))
        print(f"{indent}{shift['start']}\N{EN DASH}{shift['end']}  {single_line(text)}  ({shift['confidence']:.2f})")
    for problem in day["problems"]:
        print(f"{indent}problem  {single_line(problem)}")
    for note in day["notes"]:
        print(f"{indent}note  {single_line(note)}")


def read_image_file(path: Path) -> bytes:
    """Read a photograph, unless it is too large."""
    try:
        if path.stat().st_size > MAX_PHOTO_BYTES:
            raise TooLarge(f"the photograph has more than {MAX_PHOTO_BYTES // 1024**2} MiB; make it smaller")
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"cannot be read: {error.strerror or type(error).__name__}") from None
