"""`python -m bench.ocr`: what `duly bench ocr` becomes.

Draws screens by seeds (`tests/support/ocr/screens.py`), or takes labelled ones from a directory, reads each once as
a worker would (`OCR_ENGINE`, `OCR_LANG`, `TESSDATA_PREFIX` included), and scores what was read: where there are two
engines with the second one's reading of every line, "checked", and always without, "alone". Seeds from 1000 on have
words that nothing was developed on. With --raw every reading is written down, and a picture that is there is not read
again."""

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.ocr.needs import unmet
from bench.ocr.reading import YEAR, Desk, Notes, Reading
from bench.ocr.score import Score, score_of, seen_in, total
from duly.apps.ingest.ocr.header import find_day
from duly.apps.ingest.ocr.lines import Line
from duly.apps.ingest.ocr.page import Page
from duly.errors import DulyError, InvalidArgument
from duly.executors.process_pool import Children
from duly.settings import load_settings
from duly.wiring import eyes
from tests.support.ocr.screens import REPORT_FROM, draw


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
    """What was not read of a screen, read one way, and what was read instead."""

    image: str
    read: str
    lost: Sequence[Sequence[str]]
    instead: Sequence[Sequence[str]]
    problems: Sequence[str]


@dataclass(frozen=True)
class Result:
    """How well screens were read, by group and way, what each cost, and what was missed."""

    scores: dict[tuple[str, str], Score]
    readings: Sequence[Reading]
    misses: Sequence[Miss]

    @property
    def ways(self) -> dict[str, Score]:
        """The scores of all groups together."""
        names = dict.fromkeys(way for _, way in self.scores)
        return {name: total(score for (_, way), score in self.scores.items() if way == name) for name in names}

    @property
    def cpu_ms(self) -> float:
        """Of one screen."""
        return 1000 * sum(each.cpu_s for each in self.readings) / max(1, len(self.readings))

    @property
    def peak_mb(self) -> float:
        """Of the screen that took most."""
        return max((each.peak_mb for each in self.readings), default=0.0)

    @property
    def engines(self) -> list[str]:
        """What read."""
        return sorted({each.engine for each in self.readings})


def drawn(first: int, screens: int, hard: int) -> Iterator[Labelled]:
    """Screens of seeds from this one on."""
    for is_hard, several in ((False, screens), (True, hard)):
        for seed in range(first, first + several):
            screen = draw(seed, is_hard=is_hard)
            group = "hard" if is_hard else "screens"
            truth = screen.truth
            yield Labelled(f"{group}-{seed}", group, truth.about, screen.data, truth.schedule_date, truth.shifts)


def labelled(directory: Path) -> Iterator[Labelled]:
    """Images of a directory with a truth.json: file, date_line, shifts."""
    for each in json.loads((directory / "truth.json").read_text(encoding="utf-8")):
        day = find_day([Line(each["date_line"], 0, 1, 1, 1, 1)], YEAR)
        if day is None:
            raise InvalidArgument(f"{directory / 'truth.json'}: {each['date_line']!r} of {each['file']} names no day")
        data = (directory / each["file"]).read_bytes()
        yield Labelled(each["file"], "labelled", "", data, day.date.isoformat(), each["shifts"])


def main() -> None:
    """Read, score, print; exit 1 when a need is not met."""
    wishes = parsed()
    try:
        result = asyncio.run(measured(wishes))
    except DulyError as error:
        print(f"duly: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    missing = unmet(result.ways)
    if wishes.json:
        print(json.dumps(told(result, missing), ensure_ascii=False))
    else:
        print(table_of(result))
        print("\n".join(f"duly: not met: {each}" for each in missing), file=sys.stderr, end="\n" if missing else "")
    sys.exit(1 if missing else 0)


async def measured(wishes: argparse.Namespace) -> Result:
    """Every screen read, and scored in every way it can be."""
    chosen = labelled(wishes.images) if wishes.images else drawn(wishes.first, wishes.screens, wishes.hard)
    notes = Notes(wishes.raw)
    scores: dict[tuple[str, str], Score] = {}
    readings: list[Reading] = []
    misses: list[Miss] = []
    children = Children(1)
    desk = Desk(eyes(load_settings(), children))
    try:
        for each in chosen:
            reading = notes.find(each.data)
            if reading is None:
                reading = await desk.read(each.data)
                notes.write(each.name, each.data, reading)
            readings.append(reading)
            print(f"{each.name:14} {reading.cpu_s:5.1f} CPU-s  {each.about}", file=sys.stderr, flush=True)
            for way in reading.ways:
                page = reading.page(way)
                score = score_of(page, each.schedule_date, each.shifts)
                scores[each.group, way] = total([scores.get((each.group, way), Score()), score])
                if miss := miss_of(each, way, page, score):
                    misses.append(miss)
                    print(f"  {way}: {miss.lost} was read as {miss.instead} {miss.problems}", file=sys.stderr)
    finally:
        await children.close()
    return Result(scores, readings, misses)


def miss_of(each: Labelled, way: str, page: Page, score: Score) -> Miss | None:
    """What was missed of a screen; None when everything is right."""
    if score.right == score.shifts and score.dates and not score.invented and not page.problems:
        return None
    wanted, got = [tuple(shift) for shift in each.shifts], seen_in(page)
    lost, instead = [shift for shift in wanted if shift not in got], [shift for shift in got if shift not in wanted]
    return Miss(each.name, way, lost, instead, page.problems)


def told(result: Result, missing: Sequence[str]) -> dict[str, object]:
    """The figures for programs."""
    return {
        "rows": [{"group": group, "way": way, **asdict(score)} for (group, way), score in result.scores.items()],
        "cpu_ms": round(result.cpu_ms),
        "peak_mb": round(result.peak_mb),
        "engines": result.engines,
        "missed": [asdict(miss) for miss in result.misses],
        "unmet": missing,
        "met": not missing,
    }


def table_of(result: Result) -> str:
    """The figures for people."""
    rows = [*result.scores.items(), *((("all", way), score) for way, score in result.ways.items())]
    lines = [
        "| screens | read | images | dates | shifts completely right | times | å ä ö kept | made up | flagged |",
        "|---|---|---|---|---|---|---|---|---|",
        *(f"| {group} | {way} | {words_of(score)} |" for (group, way), score in rows),
        "",
        f"{result.cpu_ms:.0f} CPU-ms per image, {result.peak_mb:.0f} MB at most in the process that reads; "
        f"read by {' and by '.join(result.engines) or 'nothing'}",
    ]
    if "alone" in result.ways and "checked" not in result.ways:
        lines.append("Tesseract has no data of the language here, so that nothing was checked by it.")
    return "\n".join(lines)


def words_of(score: Score) -> str:
    """A row of the table."""
    share = f"{score.right} of {score.shifts} = {100 * score.right / max(1, score.shifts):.1f} %"
    marks = f"{score.kept} of {score.marked} = {100 * score.kept / max(1, score.marked):.1f} %"
    times = f"{score.times} of {score.shifts}"
    return f"{score.images} | {score.dates} | {share} | {times} | {marks} | {score.invented} | {score.flagged}"


def parsed() -> argparse.Namespace:
    """What is asked for."""
    parser = argparse.ArgumentParser(prog="duly bench ocr", description="How well photographs are read.")
    parser.add_argument("--first", type=int, default=REPORT_FROM)
    parser.add_argument("--screens", type=int, default=20)
    parser.add_argument("--hard", type=int, default=10)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
