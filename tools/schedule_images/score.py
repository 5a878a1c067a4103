"""Read labelled images of schedules and count the outcomes: right, refused, or silently wrong.

    python -m tools.schedule_images.score DIR                    the images of DIR/truth.json
    python -m tools.schedule_images.score DIR --raw boxes.jsonl  store the text boxes, and do not recognise them again
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

from duly.apps.ingest.ocr.engine import EngineConfig, OcrEngine, build_engine
from duly.apps.ingest.ocr.reader import RecognisedDay, read_days
from duly.apps.ingest.ocr.text_box import Ink, TextBox
from duly.storage.photo import decode_photo
from tools.schedule_images.layouts import REFUSED

YEAR = 2026
ShiftFields = tuple[str, ...]  # date, start, end, title, customer, location


@dataclass(frozen=True)
class Recognised:
    """The text boxes of an image, and what they cost."""

    width: int
    height: int
    boxes: Sequence[TextBox]
    cpu_seconds: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of reading an image."""

    verdict: str  # right, refused or wrong
    drawn: int  # shifts
    right: int
    missing: Sequence[ShiftFields]
    extra: Sequence[ShiftFields]
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
        recognised = raw.find(truth["file"]) or raw.write(
            truth["file"], recognise_file(options.directory / truth["file"])
        )
        boxes = (
            [replace(box, second_engine_text=None) for box in recognised.boxes] if options.alone else recognised.boxes
        )
        outcome = compare(read_days(boxes, recognised.width, recognised.height, YEAR), truth)
        outcomes.append((truth, outcome))
        spent.append(recognised.cpu_seconds)
        if options.misses:
            print_misses(truth, outcome)
        elif sys.stderr.isatty():
            print(f"\r{len(outcomes)} of {len(truths)}", end="", file=sys.stderr, flush=True)
    print(format_table(outcomes, spent))
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


def recognise_file(file: Path) -> Recognised:
    """Recognise the text of an image."""
    engine = get_engine()
    began = time.process_time()
    picture = decode_photo(file.read_bytes())
    boxes = engine.recognise(picture)
    return Recognised(picture.width, picture.height, boxes, time.process_time() - began)


@cache
def get_engine() -> OcrEngine:
    """Build the engine of this process."""
    return build_engine(EngineConfig())


class Raw:
    """Recognised text boxes, stored in a file if one is given."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self.found = {each["file"]: parse_recognised(each) for each in map(json.loads, lines)}

    def find(self, file: str) -> Recognised | None:
        """Return the stored text boxes of an image, or None."""
        return self.found.get(file)

    def write(self, file: str, recognised: Recognised) -> Recognised:
        """Store the text boxes of an image."""
        if self.path:
            with self.path.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({"file": file, **asdict(recognised)}, ensure_ascii=False) + "\n")
        return recognised


def parse_recognised(kept: Mapping[str, Any]) -> Recognised:
    """Parse the stored text boxes of an image."""
    boxes = [parse_box(box) for box in kept["boxes"]]
    return Recognised(kept["width"], kept["height"], boxes, kept["cpu_seconds"])


def parse_box(kept: Mapping[str, Any]) -> TextBox:
    """Parse a stored text box."""
    corners: Any = tuple((x, y) for x, y in kept["corners"])
    fields: dict[str, Any] = {**kept, "corners": corners, "ink": Ink(**kept["ink"]) if kept["ink"] else None}
    return TextBox(**fields)


# Counting -------------------------------------------------------------------------------------------------------------


def compare(pages: Sequence[RecognisedDay], truth: Mapping[str, Any]) -> Outcome:
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
    right = sum((Counter(map(fold_shift, drawn)) & Counter(map(fold_shift, read))).values())
    missing = find_unmatched(drawn, read)
    extra = find_unmatched(read, drawn)
    is_wrong = bool(missing or extra or truth["refuse"])
    verdict = "refused" if problems else "wrong" if is_wrong else "right"
    return Outcome(verdict, len(drawn), right, missing, extra, problems)


def fold_shift(shift: ShiftFields) -> ShiftFields:
    """Return a shift without case, spaces and punctuation, which make no difference; diacritics do."""
    return tuple("".join(letter for letter in part.casefold() if letter.isalnum()) for part in shift)


def find_unmatched(shifts: Sequence[ShiftFields], others: Sequence[ShiftFields]) -> list[ShiftFields]:
    """Return the shifts that are not among the others."""
    left = Counter(map(fold_shift, others))
    found: list[ShiftFields] = []
    for shift in shifts:
        if left[fold_shift(shift)]:
            left[fold_shift(shift)] -= 1
        else:
            found.append(shift)
    return found


def format_table(outcomes: Sequence[tuple[Mapping[str, Any], Outcome]], spent: Sequence[float]) -> str:
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
        lines += [format_row(name, group) for name, group in groups.items()]
    readable = [outcome for truth, outcome in outcomes if truth["layout"] not in REFUSED]
    lines.append(format_row("**readable**", readable))
    lines.append(
        format_row("**to be refused**", [outcome for truth, outcome in outcomes if truth["layout"] in REFUSED])
    )
    drawn, right = sum(each.drawn for each in readable), sum(each.right for each in readable if each.verdict == "right")
    fully = sum(each.right for each in readable if each.verdict != "refused")
    wrong = sum(each.verdict == "wrong" for _, each in outcomes)
    lines += [
        "",
        f"shifts of readable images: {drawn}; "
        f"right in images that were not refused: {fully} = {format_percent(fully, drawn)}; "
        f"in images that are right as a whole: {right} = {format_percent(right, drawn)}",
        f"images silently wrong: {wrong} of {len(outcomes)} = {format_percent(wrong, len(outcomes))}",
        f"CPU-seconds an image: {sum(spent) / max(1, len(spent)):.2f}, at most {max(spent, default=0):.2f}",
    ]
    return "\n".join(lines)


def format_row(name: str, group: Sequence[Outcome]) -> str:
    """Return a row of the table."""
    verdicts = Counter(each.verdict for each in group)
    kept = [each for each in group if each.verdict != "refused"]
    drawn, right = sum(each.drawn for each in kept), sum(each.right for each in kept)
    cells = (len(group), verdicts["right"], verdicts["refused"], verdicts["wrong"], f"{right} of {drawn}")
    return f"| {name} | {' | '.join(map(str, cells))} |"


def format_percent(part: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{100 * part / max(1, whole):.1f} %"


def print_misses(truth: Mapping[str, Any], outcome: Outcome) -> None:
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
