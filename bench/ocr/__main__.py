"""`python -m bench.ocr`: what `duly bench ocr` becomes.

Draws screens by seeds (`tests/eyes/screens.py`), or takes labelled ones from a directory, reads each once, and scores
what was read twice: with the second engine's reading of every line, and without. Seeds from 1000 on have words that
nothing was developed on. With --raw every reading is written down, and what is there already is not read again.
"""

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from bench.ocr.score import Score, score_of, total
from duly.ingest.eyes.engine import Equipment, build_engine, find_language
from duly.ingest.eyes.header import find_day
from duly.ingest.eyes.lines import Line
from duly.ingest.eyes.mark import Mark
from duly.ingest.eyes.page import read_page
from tests.eyes.screens import REPORT_FROM, draw, fonts

NEEDS = {"checked": 97.0, "alone": 95.0}
YEAR = 2026


@dataclass(frozen=True)
class Labelled:
    """A screen to read, and what it shows."""

    name: str
    group: str
    about: str
    data: bytes
    schedule_date: str
    shifts: Sequence[Sequence[str]]


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
    for each in json.loads((directory / "truth.json").read_text()):
        day = find_day([Line(each["date_line"], 0, 1, 1, 1, 1)], YEAR)
        data = (directory / each["file"]).read_bytes()
        yield Labelled(each["file"], "labelled", "", data, day.date.isoformat() if day else "", each["shifts"])


def main() -> None:
    """Read, score, print."""
    wishes = parsed()
    chosen = labelled(wishes.images) if wishes.images else drawn(wishes.first, wishes.screens, wishes.hard)
    raw = Raw(wishes.raw)
    scores: dict[tuple[str, str], list[Score]] = {}
    cpu: list[float] = []
    engine = None
    for each in chosen:
        picture = Image.open(BytesIO(each.data)).convert("RGB")
        if (found := raw.find(each.name)) is None:
            engine = engine or build_engine(Equipment())
            began = time.process_time()
            marks = engine.read(picture)
            found = raw.write(each.name, marks, time.process_time() - began, peak_mb())
        cpu.append(found["cpu_s"])
        for way in NEEDS:
            page = read_page(marks_of(found, alone=way == "alone"), picture.width, picture.height, YEAR)
            score = score_of(page, each.schedule_date, each.shifts)
            scores.setdefault((each.group, way), []).append(score)
            if score.right < score.shifts or score.invented or page.problems:
                tell_miss(each, way, page, wishes.json)
        if not wishes.json:
            print(f"{each.name:14} {cpu[-1]:5.1f} CPU-s  {each.about}", file=sys.stderr, flush=True)
    report(scores, cpu, raw.most_mb, wishes)


class Raw:
    """What was read, written down so that it need not be read again."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text().splitlines() if path and path.exists() else []
        self.found: dict[str, dict[str, Any]] = {each["name"]: each for each in map(json.loads, lines)}
        self.most_mb = max((each["peak_mb"] for each in self.found.values()), default=0.0)

    def find(self, name: str) -> dict[str, Any] | None:
        """What was read of this screen."""
        return self.found.get(name)

    def write(self, name: str, marks: Sequence[Mark], cpu_s: float, mb: float) -> dict[str, Any]:
        """Write it down."""
        self.most_mb = max(self.most_mb, mb)
        read = {"name": name, "cpu_s": round(cpu_s, 2), "peak_mb": round(mb), "marks": [asdict(mark) for mark in marks]}
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(read, ensure_ascii=False) + "\n")
        return read


def marks_of(found: dict[str, Any], *, alone: bool) -> list[Mark]:
    """The marks of a reading, with what the second engine said or without."""
    marks: list[Mark] = []
    for each in found["marks"]:
        one, two, three, four = ((x, y) for x, y in each["corners"])
        second = None if alone else each["second"]
        marks.append(Mark(each["text"], (one, two, three, four), each["confidence"], second))
    return marks


def peak_mb() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def tell_miss(each: Labelled, way: str, page: Any, is_json: bool) -> None:
    """What was not read, for whoever wants to know why."""
    got = {(card.start, card.end, card.title, card.customer, card.location) for card in page.shifts}
    missed = [shift for shift in map(tuple, each.shifts) if shift not in got]
    others = sorted(got - set(map(tuple, each.shifts)))
    if not is_json:
        print(f"  {each.name} {way}: {missed} was read as {others} {list(page.problems)}", file=sys.stderr)


def report(scores: dict[tuple[str, str], list[Score]], cpu: list[float], mb: float, wishes: argparse.Namespace) -> None:
    """The figures, for people or programs; exit 1 when a need is not met."""
    has_language = find_language("swe", None) is not None
    sums = {key: total(each) for key, each in scores.items()}
    ways = {way: total(score for (_, of), score in sums.items() if of == way) for way in NEEDS}
    met = {way: 100 * score.right / max(1, score.shifts) >= NEEDS[way] for way, score in ways.items()}
    if wishes.json:
        rows = [{"group": group, "way": way, **asdict(score)} for (group, way), score in sums.items()]
        each = {"cpu_ms": round(1000 * sum(cpu) / max(1, len(cpu))), "peak_mb": round(mb)}
        print(json.dumps({"rows": rows, **each, "language": has_language, "fonts": len(fonts()), "met": met}))
    else:
        print("| screens | read | images | dates | shifts completely right | times | å ä ö kept | made up | flagged |")
        print("|---|---|---|---|---|---|---|---|---|")
        for (group, way), score in [*sums.items(), *((("all", way), score) for way, score in ways.items())]:
            print(f"| {group} | {way} | {words_of(score)} |")
        per_image = 1000 * sum(cpu) / max(1, len(cpu))
        print(f"\n{per_image:.0f} CPU-ms per image, {mb:.0f} MB at most; {len(fonts())} families of fonts")
    sys.exit(0 if all(met.values()) else 1)


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
