"""`python -m tools.bench.figures`: `duly bench all`; with --from-json it draws and writes without measuring."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from duly.launcher import ROOT
from tools.bench.figures.page import GENERATED, page_of
from tools.bench.figures.pictures import pictures_of
from tools.bench.figures.plans import NAMES, Extent, words_of_plan
from tools.bench.figures.record import Record, Start
from tools.bench.report import verdicts_of

HOME = ROOT / "docs" / "figures"
DATA = ".data.json"


def main() -> None:
    """Measure what was asked for, then draw and write down everything that is kept."""
    asked = arguments()
    home: Path = asked.from_json or asked.out
    home.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if not asked.from_json:
        for name in chosen(asked.only):
            refuse_foreign(home / f"{name}{DATA}")
            record = measure(name, asked.extent, asked.rounds)
            if record is None:
                failed.append(name)
            else:
                (home / f"{name}{DATA}").write_text(record.text())
    records = [Record.read(file) for name in NAMES if (file := home / f"{name}{DATA}").exists()]
    written = write_figures(records, home) if records else []
    say(records, written, failed, asked.json)
    sys.exit(1 if failed or not records else 0)


def arguments() -> argparse.Namespace:
    """What was asked for; the command says what each word means."""
    parser = argparse.ArgumentParser(prog="duly bench all", description="All benchmarks in turn; pictures and a page.")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", default="")
    extent = parser.add_mutually_exclusive_group()
    for each in (Extent.QUICK, Extent.FULL):
        extent.add_argument(f"--{each}", dest="extent", action="store_const", const=each, default=Extent.USUAL)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--out", type=Path, default=HOME)
    place.add_argument("--from-json", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def chosen(only: str) -> Sequence[str]:
    """Which benchmarks, in their own order."""
    wanted = only.split(",") if only else NAMES
    for word in wanted:
        if word not in NAMES:
            refuse(f"there is no '{word}': choose from {', '.join(NAMES)}")
    return [name for name in NAMES if name in wanted]


def measure(name: str, extent: Extent, rounds: int | None) -> Record | None:
    """Run one benchmark to its end; its lines go to stderr as they come. None when it failed, which it said itself."""
    words = words_of_plan(name, extent, rounds)
    command = f"duly bench {name} {' '.join(words)}"
    print(f"duly: {command}", file=sys.stderr, flush=True)
    start = Start.now()
    program = [sys.executable, "-m", f"tools.bench.{name}", *words, "--json"]
    answer = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if answer.returncode:
        print(f"duly: bench {name} ended with {answer.returncode}; its figures stay as they were", file=sys.stderr)
        return None
    return Record.of_answer(name, command, start, json.loads(answer.stdout))


def write_figures(records: Sequence[Record], home: Path) -> list[Path]:
    """Pictures of every record and the page of all; a file that is not ours stops it before anything is written."""
    texts: dict[Path, str] = {}
    pictures: dict[str, list[str]] = {}
    for record in records:
        drawn = pictures_of(record)
        pictures[record.name] = list(drawn)
        first = f"<!-- {GENERATED} `duly bench all` from {record.name}{DATA}. Changes here are lost. -->\n"
        texts |= {home / name: first + text for name, text in drawn.items()}
    texts[home / "README.md"] = page_of(records, pictures, home)
    for file in texts:
        refuse_foreign(file)
    for record in records:
        for old in home.glob(f"{record.name}-*.svg"):
            if old not in texts and is_ours(old):
                old.unlink()  # a picture of figures that are no longer measured
    for file, text in texts.items():
        file.write_text(text)
    return list(texts)


def refuse_foreign(file: Path) -> None:
    """Stop before a file that we did not write."""
    if file.exists() and not is_ours(file):
        refuse(f"{file} is not one of ours (its first line does not say that it was generated): move it, or use --out")


def is_ours(file: Path) -> bool:
    """Does its first line say that it was generated?"""
    return "generated" in file.read_text().partition("\n")[0].lower()


def refuse(reason: str) -> None:
    """Say why not, and end."""
    print(f"duly: {reason}", file=sys.stderr)
    sys.exit(2)


def say(records: Sequence[Record], written: Sequence[Path], failed: Sequence[str], is_json: bool) -> None:
    """What there is now, and what was met."""
    met = {record.name: met_of(record) for record in records}
    if is_json:
        files = [str(file) for file in written]
        print(json.dumps({"figures": met, "failed": list(failed), "written": files}))
        return
    for name, needs in met.items():
        missed = [words for words, is_met in needs.items() if not is_met]
        print(
            f"{name:10} {len(needs) - len(missed)} of {len(needs)} met"
            + (f"; missed: {'; '.join(missed)}" if missed else "")
        )
    for file in written:
        print(f"wrote {file}")


def met_of(record: Record) -> Mapping[str, bool]:
    """Every need in words, and whether it was met."""
    return {
        f"{record.scenarios[each.need.scenario]}, {each.need.words}": each.is_met
        for each in verdicts_of(record.measures, record.needs)
    }


if __name__ == "__main__":
    main()
