"""`python -m tools.bench.ocr`: the implementation of `duly bench ocr`.

Draws screens from seeds (`tests/support/ocr/screens.py`), or loads labelled ones from a directory, reads each once as
a worker would (including `OCR_ENGINE`, `OCR_LANG`, `TESSDATA_PREFIX`), and scores the result: with the readings of the
second engine ("checked"), if there is one, and always without ("alone"). Seeds from 1000 on have words that were not
used in development. With --raw every reading is stored, and an image that is stored is not read again."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from duly.apps.ingest.build_work import build_ocr_runner
from duly.apps.ingest.ocr.header import find_header_date
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.reader import RecognisedDay
from duly.errors import DulyError, InvalidArgument
from duly.executors.process_pool import ProcessPool
from duly.settings import load_settings
from tests.support.ocr.screens import REPORT_FROM, draw
from tools.bench.ocr.goals import find_failed_goals
from tools.bench.ocr.reading import YEAR, Reading, ReadingCache, ScreenReader
from tools.bench.ocr.score import Score, score_day, to_rows, total


@dataclass(frozen=True)
class Labelled:
    """A screen to read, and what it shows."""

    name: str
    group: str
    about: str
    data: bytes
    schedule_date: str
    shifts: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Miss:
    """The shifts of a screen that were not read, and what was read instead."""

    image: str
    read: str
    lost: Sequence[Sequence[str]]
    instead: Sequence[Sequence[str]]
    problems: Sequence[str]


@dataclass(frozen=True)
class Result:
    """Scores by group and way of reading, the readings with their costs, and the misses."""

    scores: dict[tuple[str, str], Score]
    readings: Sequence[Reading]
    misses: Sequence[Miss]

    @property
    def ways(self) -> dict[str, Score]:
        """Return the score of each way of reading, over all groups."""
        names = dict.fromkeys(way for _, way in self.scores)
        return {name: total(score for (_, way), score in self.scores.items() if way == name) for name in names}

    @property
    def cpu_ms(self) -> float:
        """Return the mean CPU time of a screen."""
        return 1000 * sum(each.cpu_s for each in self.readings) / max(1, len(self.readings))

    @property
    def peak_mb(self) -> float:
        """Return the highest peak memory of a screen."""
        return max((each.peak_mb for each in self.readings), default=0.0)

    @property
    def engines(self) -> list[str]:
        """Return the names of the engines that were used."""
        return sorted({each.engine for each in self.readings})


def draw_screens(first: int, screens: int, hard: int) -> Iterator[Labelled]:
    """Draw the screens of consecutive seeds."""
    for is_hard, several in ((False, screens), (True, hard)):
        for seed in range(first, first + several):
            screen = draw(seed, is_hard=is_hard)
            group = "hard" if is_hard else "screens"
            truth = screen.truth
            yield Labelled(f"{group}-{seed}", group, truth.about, screen.data, truth.schedule_date, truth.shifts)


def load_labelled(directory: Path) -> Iterator[Labelled]:
    """Load the images of a directory with a truth.json: file, date_line, shifts."""
    for each in json.loads((directory / "truth.json").read_text(encoding="utf-8")):
        day = find_header_date([Line(each["date_line"], 0, 1, 1, 1, 1)], YEAR)
        if day is None:
            raise InvalidArgument(f"{directory / 'truth.json'}: {each['date_line']!r} of {each['file']} has no date")
        data = (directory / each["file"]).read_bytes()
        yield Labelled(each["file"], "labelled", "", data, day.date.isoformat(), each["shifts"])


def main() -> None:
    """Read, score, print; exit 1 if a goal is not met."""
    options = parse_arguments()
    try:
        result = asyncio.run(measure(options))
    except DulyError as error:
        print(f"duly: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    failed = find_failed_goals(result.ways)
    if options.json:
        print(json.dumps(to_document(result, failed), ensure_ascii=False))
    else:
        print(format_table(result))
        print("\n".join(f"duly: not met: {each}" for each in failed), file=sys.stderr, end="\n" if failed else "")
    sys.exit(1 if failed else 0)


async def measure(options: argparse.Namespace) -> Result:
    """Read every screen, and score it in every way of reading that its engine allows."""
    chosen = (
        load_labelled(options.images) if options.images else draw_screens(options.first, options.screens, options.hard)
    )
    cache = ReadingCache(options.raw)
    scores: dict[tuple[str, str], Score] = {}
    readings: list[Reading] = []
    misses: list[Miss] = []
    process_pool = ProcessPool(1)
    screen_reader = ScreenReader(build_ocr_runner(load_settings(), process_pool))
    try:
        for each in chosen:
            reading = cache.find(each.data)
            if reading is None:
                reading = await screen_reader.read(each.data)
                cache.write(each.name, each.data, reading)
            readings.append(reading)
            print(f"{each.name:14} {reading.cpu_s:5.1f} CPU-s  {each.about}", file=sys.stderr, flush=True)
            for way in reading.ways:
                page = reading.page(way)
                score = score_day(page, each.schedule_date, each.shifts)
                scores[each.group, way] = total([scores.get((each.group, way), Score()), score])
                if miss := find_miss(each, way, page, score):
                    misses.append(miss)
                    print(f"  {way}: {miss.lost} was read as {miss.instead} {miss.problems}", file=sys.stderr)
    finally:
        await process_pool.close()
    return Result(scores, readings, misses)


def find_miss(each: Labelled, way: str, page: RecognisedDay, score: Score) -> Miss | None:
    """Return what was missed of a screen; None if everything is right."""
    if score.right == score.shifts and score.dates and not score.invented and not page.problems:
        return None
    expected, recognised = [tuple(shift) for shift in each.shifts], to_rows(page)
    lost, instead = (
        [shift for shift in expected if shift not in recognised],
        [shift for shift in recognised if shift not in expected],
    )
    return Miss(each.name, way, lost, instead, page.problems)


def to_document(result: Result, failed: Sequence[str]) -> dict[str, object]:
    """Return the figures as a JSON document."""
    return {
        "rows": [{"group": group, "way": way, **asdict(score)} for (group, way), score in result.scores.items()],
        "cpu_ms": round(result.cpu_ms),
        "peak_mb": round(result.peak_mb),
        "engines": result.engines,
        "missed": [asdict(miss) for miss in result.misses],
        "unmet": failed,
        "met": not failed,
    }


def format_table(result: Result) -> str:
    """Format the figures as a Markdown table."""
    rows = [*result.scores.items(), *((("all", way), score) for way, score in result.ways.items())]
    lines = [
        "| screens | read | images | dates | shifts completely right | times | å ä ö kept | made up | flagged |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {group} | {way} | {format_row(score)} |" for (group, way), score in rows),
        "",
        f"{result.cpu_ms:.0f} CPU-ms per image, {result.peak_mb:.0f} MB at most in the process that reads; "
        f"read by {' and by '.join(result.engines) or 'nothing'}",
    ]
    if "alone" in result.ways and "checked" not in result.ways:
        lines.append("Tesseract's data of the language is not installed, so it checked nothing.")
    return "\n".join(lines)


def format_row(score: Score) -> str:
    """Format a row of the table."""
    share = f"{score.right} of {score.shifts} = {100 * score.right / max(1, score.shifts):.1f} %"
    diacritics = f"{score.kept} of {score.marked} = {100 * score.kept / max(1, score.marked):.1f} %"
    times = f"{score.times} of {score.shifts}"
    return f"{score.images} | {score.dates} | {share} | {times} | {diacritics} | {score.invented} | {score.flagged}"


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="duly bench ocr", description="Measure how well photographs are read.")
    parser.add_argument("--first", type=int, default=REPORT_FROM)
    parser.add_argument("--screens", type=int, default=20)
    parser.add_argument("--hard", type=int, default=10)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
