"""Read labelled images of schedules and count what was read: right, refused, or wrong without a word.

    python -m tools.schedule_images.score DIR                    the images of DIR/truth.json
    python -m tools.schedule_images.score DIR --raw marks.jsonl  keep what the engine saw, and do not look again
    … --misses                                                   and name every shift that is not right

An image is *refused* when reading it names a problem, *silently wrong* when it names none and something is not as
drawn: a date, a time, a title, a customer, a place, a shift too many or too few. Case, blanks and punctuation make no
change of a day, and no difference here.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from duly.apps.ingest.ocr.engine import Engine, Equipment, build_engine
from duly.apps.ingest.ocr.mark import Ink, Mark
from duly.apps.ingest.ocr.page import Page, read_pages
from duly.storage.photo import plain_photo
from tools.schedule_images.layouts import REFUSED

__all__ = ["Outcome", "main", "outcome_of"]

YEAR = 2026
Shown = tuple[str, ...]  # date, start, end, title, customer, location


@dataclass(frozen=True)
class Seen:
    """What an engine saw in an image, and what that cost."""

    width: int
    height: int
    marks: Sequence[Mark]
    cpu_seconds: float


@dataclass(frozen=True)
class Outcome:
    """What became of an image."""

    verdict: str  # right, refused or wrong
    drawn: int  # shifts
    right: int
    missing: Sequence[Shown]
    extra: Sequence[Shown]
    problems: Sequence[str]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and count."""
    options = parse(arguments)
    truths: list[dict[str, Any]] = json.loads((options.directory / "truth.json").read_text(encoding="utf-8"))
    raw = Raw(options.raw)
    outcomes: list[tuple[Mapping[str, Any], Outcome]] = []
    spent: list[float] = []
    for truth in truths:
        if options.known and not raw.find(truth["file"]):
            continue
        seen = raw.find(truth["file"]) or raw.write(truth["file"], look(options.directory / truth["file"]))
        marks = [replace(mark, second=None) for mark in seen.marks] if options.alone else seen.marks
        outcome = outcome_of(read_pages(marks, seen.width, seen.height, YEAR), truth)
        outcomes.append((truth, outcome))
        spent.append(seen.cpu_seconds)
        if options.misses:
            show(truth, outcome)
        elif sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {len(truths)}", end="", file=sys.stderr, flush=True)
    print(table_of(outcomes, spent))
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.schedule_images.score",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--alone", action="store_true", help="without what Tesseract read")
    parser.add_argument("--known", action="store_true", help="only images that --raw has")
    parser.add_argument("--misses", action="store_true")
    return parser.parse_args(arguments)


# Reading --------------------------------------------------------------------------------------------------------------


def look(file: Path) -> Seen:
    """Have the engine look at an image."""
    engine = engine_here()
    began = time.process_time()
    picture = plain_photo(file.read_bytes())
    marks = engine.read(picture)
    return Seen(picture.width, picture.height, marks, time.process_time() - began)


@cache
def engine_here() -> Engine:
    """Build the engine of this process."""
    return build_engine(Equipment())


class Raw:
    """What an engine saw, in a file where one is named."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self.found = {each["file"]: seen_in(each) for each in map(json.loads, lines)}

    def find(self, file: str) -> Seen | None:
        """Return what was seen in an image before."""
        return self.found.get(file)

    def write(self, file: str, seen: Seen) -> Seen:
        """Keep what was seen in an image."""
        if self.path:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"file": file, **asdict(seen)}, ensure_ascii=False) + "\n")
        return seen


def seen_in(kept: Mapping[str, Any]) -> Seen:
    """Make what was seen from what was kept of it."""
    marks = [mark_in(mark) for mark in kept["marks"]]
    return Seen(kept["width"], kept["height"], marks, kept["cpu_seconds"])


def mark_in(kept: Mapping[str, Any]) -> Mark:
    """Make a mark from what was kept of it."""
    corners: Any = tuple((x, y) for x, y in kept["corners"])
    fields: dict[str, Any] = {**kept, "corners": corners, "ink": Ink(**kept["ink"]) if kept["ink"] else None}
    return Mark(**fields)


# Counting -------------------------------------------------------------------------------------------------------------


def outcome_of(pages: Sequence[Page], truth: Mapping[str, Any]) -> Outcome:
    """Compare what was read with what was drawn."""
    drawn = [(day["date"], *shift) for day in truth["days"] for shift in day["shifts"]]
    read = [
        (page.schedule_date or "", card.start, card.end, card.title, card.customer, card.location)
        for page in pages
        for card in page.shifts
    ]
    problems = [problem for page in pages for problem in page.problems]
    if not read:
        problems.append("no shift")
    elif any(page.schedule_date is None for page in pages):
        problems.append("no date")
    right = sum((Counter(map(folded, drawn)) & Counter(map(folded, read))).values())
    missing = left_over(drawn, read)
    extra = left_over(read, drawn)
    is_wrong = bool(missing or extra or truth["refuse"])
    verdict = "refused" if problems else "wrong" if is_wrong else "right"
    return Outcome(verdict, len(drawn), right, missing, extra, problems)


def folded(shift: Shown) -> Shown:
    """Return a shift without what makes no change: case, blanks and punctuation; marks and all letters stay."""
    return tuple("".join(letter for letter in part.casefold() if letter.isalnum()) for part in shift)


def left_over(shifts: Sequence[Shown], others: Sequence[Shown]) -> list[Shown]:
    """Return the shifts that are not among the others."""
    left = Counter(map(folded, others))
    found: list[Shown] = []
    for shift in shifts:
        if left[folded(shift)]:
            left[folded(shift)] -= 1
        else:
            found.append(shift)
    return found


def table_of(outcomes: Sequence[tuple[Mapping[str, Any], Outcome]], spent: Sequence[float]) -> str:
    """Return the counts for people: by layout, by damage, by font, and all."""
    lines = [
        "| images | number | right | refused | silently wrong | shifts right, of images not refused |",
        "|---|---|---|---|---|---|",
    ]
    for label in ("layout", "damage", "font"):
        groups = defaultdict[str, list[Outcome]](list)
        for truth, outcome in outcomes:
            if label == "layout" or truth["layout"] not in REFUSED:
                groups[truth[label]].append(outcome)
        lines += [row_of(name, group) for name, group in groups.items()]
    readable = [outcome for truth, outcome in outcomes if truth["layout"] not in REFUSED]
    lines.append(row_of("**readable**", readable))
    lines.append(row_of("**to be refused**", [outcome for truth, outcome in outcomes if truth["layout"] in REFUSED]))
    drawn, right = sum(each.drawn for each in readable), sum(each.right for each in readable if each.verdict == "right")
    fully = sum(each.right for each in readable if each.verdict != "refused")
    wrong = sum(each.verdict == "wrong" for _, each in outcomes)
    lines += [
        "",
        f"shifts of readable images: {drawn}; right in images that were not refused: {fully} = {share(fully, drawn)}; "
        f"in images that are right as a whole: {right} = {share(right, drawn)}",
        f"images silently wrong: {wrong} of {len(outcomes)} = {share(wrong, len(outcomes))}",
        f"CPU-seconds an image: {sum(spent) / max(1, len(spent)):.2f}, at most {max(spent, default=0):.2f}",
    ]
    return "\n".join(lines)


def row_of(name: str, group: Sequence[Outcome]) -> str:
    """Return a row of the table."""
    verdicts = Counter(each.verdict for each in group)
    kept = [each for each in group if each.verdict != "refused"]
    drawn, right = sum(each.drawn for each in kept), sum(each.right for each in kept)
    cells = (len(group), verdicts["right"], verdicts["refused"], verdicts["wrong"], f"{right} of {drawn}")
    return f"| {name} | {' | '.join(map(str, cells))} |"


def share(part: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{100 * part / max(1, whole):.1f} %"


def show(truth: Mapping[str, Any], outcome: Outcome) -> None:
    """Name what is not right in an image."""
    if outcome.verdict == "right" or (outcome.verdict == "refused" and truth["refuse"]):
        return
    print(f"{outcome.verdict.upper():8} {truth['file']}")
    for sign, shifts in (("-", outcome.missing), ("+", outcome.extra)):
        for shift in shifts:
            print(f"    {sign} {' | '.join(shift)}")
    for problem in outcome.problems:
        print(f"    ! {problem}")


if __name__ == "__main__":
    sys.exit(main())
