"""`python -m tools.bench.figures`: `duly bench all`; with --from-json it draws and writes without measuring."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from duly.launcher import ROOT
from tools.bench.figures.charts import draw_charts
from tools.bench.figures.page import GENERATED, render_page
from tools.bench.figures.plans import NAMES, Extent, list_options
from tools.bench.figures.record import Record, RunStart
from tools.bench.report import evaluate_goals

HOME = ROOT / "docs" / "figures"
DATA = ".data.json"


def main() -> None:
    """Measure what the options name, then draw every stored record and write the page."""
    options = arguments()
    home: Path = options.from_json or options.out
    home.mkdir(parents=True, exist_ok=True)
    failed: list[str] = []
    if not options.from_json:
        for name in chosen(options.only):
            refuse_to_overwrite(home / f"{name}{DATA}")
            record = measure(name, options.extent, options.rounds)
            if record is None:
                failed.append(name)
            else:
                (home / f"{name}{DATA}").write_text(record.text())
    records = [Record.read(file) for name in NAMES if (file := home / f"{name}{DATA}").exists()]
    written = write_figures(records, home) if records else []
    log(records, written, failed, options.json)
    sys.exit(1 if failed or not records else 0)


def arguments() -> argparse.Namespace:
    """Parse the options; the command documents them."""
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
    """Choose benchmarks, in their own order."""
    wanted = only.split(",") if only else NAMES
    for word in wanted:
        if word not in NAMES:
            refuse(f"there is no '{word}': choose from {', '.join(NAMES)}")
    return [name for name in NAMES if name in wanted]


def measure(name: str, extent: Extent, rounds: int | None) -> Record | None:
    """Run one benchmark; its lines go to stderr as they come. None when it failed."""
    words = list_options(name, extent, rounds)
    command = f"duly bench {name} {' '.join(words)}"
    print(f"duly: {command}", file=sys.stderr, flush=True)
    start = RunStart.now()
    program = [sys.executable, "-m", f"tools.bench.{name}", *words, "--json"]
    answer = subprocess.run(program, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if answer.returncode:
        print(f"duly: bench {name} ended with {answer.returncode}; its figures stay as they were", file=sys.stderr)
        return None
    return Record.from_answer(name, command, start, json.loads(answer.stdout))


def write_figures(records: Sequence[Record], home: Path) -> list[Path]:
    """Write the charts of every record and the page, unless one of the files was not generated."""
    texts: dict[Path, str] = {}
    charts: dict[str, list[str]] = {}
    for record in records:
        drawn = draw_charts(record)
        charts[record.name] = list(drawn)
        first = f"<!-- {GENERATED} `duly bench all` from {record.name}{DATA}. Changes here are lost. -->\n"
        texts |= {home / name: first + text for name, text in drawn.items()}
    texts[home / "README.md"] = render_page(records, charts, home)
    for file in texts:
        refuse_to_overwrite(file)
    for record in records:
        for old in home.glob(f"{record.name}-*.svg"):
            if old not in texts and is_generated(old):
                old.unlink()  # a picture of figures that are no longer measured
    for file, text in texts.items():
        file.write_text(text)
    return list(texts)


def refuse_to_overwrite(file: Path) -> None:
    """Refuse to overwrite a file that was not generated."""
    if file.exists() and not is_generated(file):
        refuse(f"{file} is not one of ours (its first line does not say that it was generated): move it, or use --out")


def is_generated(file: Path) -> bool:
    """Check whether its first line says that it was generated."""
    return "generated" in file.read_text().partition("\n")[0].lower()


def refuse(reason: str) -> None:
    """Print the reason and exit 2."""
    print(f"duly: {reason}", file=sys.stderr)
    sys.exit(2)


def log(records: Sequence[Record], written: Sequence[Path], failed: Sequence[str], is_json: bool) -> None:
    """Print what was written, and which goals were met."""
    met = {record.name: find_met_goals(record) for record in records}
    if is_json:
        files = [str(file) for file in written]
        print(json.dumps({"figures": met, "failed": list(failed), "written": files}))
        return
    for name, goals in met.items():
        missed = [words for words, is_met in goals.items() if not is_met]
        print(
            f"{name:10} {len(goals) - len(missed)} of {len(goals)} met"
            + (f"; missed: {'; '.join(missed)}" if missed else "")
        )
    for file in written:
        print(f"wrote {file}")


def find_met_goals(record: Record) -> Mapping[str, bool]:
    """Return every goal by its title, and whether it was met."""
    return {
        f"{record.scenarios[each.goal.scenario]}, {each.goal.label}": each.is_met
        for each in evaluate_goals(record.measures, record.goals)
    }


if __name__ == "__main__":
    main()
