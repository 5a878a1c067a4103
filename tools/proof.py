"""The proof tier: tests that run nightly and before a release, in sections that can also run alone.

    ./duly test --proof list               the sections, and what each covers
    ./duly test --proof                    all of them, one after the other
    ./duly test --proof faults pg15        only these sections
    … --report                             also write result, commit and seed of each to docs/figures/proof.md
    … --minutes 90                         on a busy machine: stop a section after 90 minutes instead of 30

If you change what a section covers, run that section. A section takes at most half an hour on two quiet cores.
"""

import argparse
import json
import os
import re
import secrets
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from duly.launcher import ROOT

PAGE = ROOT / "docs" / "figures" / "proof.md"
DATA = ROOT / "docs" / "figures" / "proof.data.json"
MINUTES = 30  # of a section, on two quiet cores
SQL = ("accounts", "apps", "db", "jobs", "lease", "outbox", "verify", "worker")
CONFORMANCE = ("tests/fast/lease", "tests/full/lease", "tests/fast/worker", "tests/full/worker")


@dataclass(frozen=True)
class Section:
    """Commands of `./duly`, all of which must succeed."""

    covers: str
    commands: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Result:
    """The result of a section."""

    section: str
    passed: bool
    closing: str
    commit: str
    seed: int
    minutes: float
    at: str
    load: float = 0.0  # of the machine while it ran, its own included


def tests(*arguments: str) -> list[str]:
    """Return the command that runs these tests."""
    return ["test", *arguments]


def on_server(name: str) -> Section:
    """Return a section that runs every package with SQL on a server of this name."""
    directories = [str(path.relative_to(ROOT)) for path in sql_directories()]
    return Section(f"every package with SQL on {name}", [tests(*directories, "--server", name)])


def sql_directories() -> list[Path]:
    """Return the test directories of the packages with SQL, in the fast and the full tier."""
    return [path for tier in ("fast", "full") for each in SQL if (path := ROOT / "tests" / tier / each).is_dir()]


def through_pooler(name: str) -> Section:
    """Return a section that runs lease and worker tests through PgBouncer in transaction mode."""
    return Section(
        f"lease and worker conformance on {name} through PgBouncer",
        [tests(*CONFORMANCE, "--server", name, "--through-pooler")],
    )


SECTIONS: Mapping[str, Section] = {
    "faults": Section(
        "hundreds of kills, stalled workers, lost servers and lost answers; every crash point",
        [tests("tests/proof/faults", "-n0"), ["chaos", "--minutes", "8"]],
    ),
    "guards": Section(
        "every trigger, unique key, policy, owner predicate and SKIP LOCKED removed in turn",
        [tests("tests/proof/guards"), ["chaos", "--guards", "--report"]],
    ),
    "invariants": Section(
        "every branch of every invariant is needed; invariants checked after every fast test",
        [tests("tests/proof/verify"), tests("tests/fast", "--invariants", "test")],
    ),
    "races": Section(
        "conformance and races, ten rounds in random order",
        [
            tests("tests/fast/lease", "tests/full/lease", "--rounds", "10"),
            tests(*(f"tests/{tier}" for tier in ("fast", "full")), "-k", "race or races or at_once", "--rounds", "5"),
        ],
    ),
    "storms": Section(
        "concurrent taps and answers", [tests("tests/proof/telegram", "tests/proof/apps/scheduler/test_storm.py")]
    ),
    "firings": Section(
        "a hundred rules against an oracle, at every change of clocks of every zone to 2100",
        [tests("tests/proof/apps/scheduler/test_firings.py")],
    ),
    "packages": Section("each extra in a clean environment, and its first command", [tests("tests/proof/packages")]),
    "http": Section("Schemathesis over every route", [tests("tests/proof/http")]),
    "ocr": Section("OCR recordings and layouts", [tests("tests/proof/apps/ingest")]),
    "bench": Section("the benchmarks' own tests", [tests("tests/proof/bench")]),
    **{f"pg{major}": on_server(f"pg{major}") for major in (15, 16, 17, 18)},
    **{f"pg{major}-pgbouncer": through_pooler(f"pg{major}") for major in (15, 16, 17, 18)},
    "stock": Section(
        "every package with SQL on stock; a worker with JIT on and off on every major",
        [*on_server("stock").commands, tests("tests/proof/servers", "-n0")],
    ),
}


def run_proof(arguments: Sequence[str]) -> int:
    """Run sections; return 0 if all of them passed."""
    options = read_arguments(arguments)
    if "list" in options.sections:
        print("\n".join(f"{name:16} {section.covers}" for name, section in SECTIONS.items()))
        return 0
    if unknown := [name for name in options.sections if name not in SECTIONS]:
        print(f"duly: unknown section: {', '.join(unknown)}; choose from {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    results: list[Result] = []
    for name in options.sections or SECTIONS:
        results.append(run_section(name, options.minutes))
        if options.report:
            write_report(results)
    for result in results:
        verdict = "ok" if result.passed else "FAILED"
        print(f"duly: {verdict:6} {result.section:16} {result.minutes:5.1f} min  {result.closing}")
    passed = sum(result.passed for result in results)
    print(f"{passed} passed, {len(results) - passed} failed")
    return 0 if passed == len(results) else 1


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="./duly test --proof", description="run sections of the proof tier")
    parser.add_argument("sections", nargs="*", help="sections; `list` lists them")
    parser.add_argument("--report", action="store_true", help="write the results to docs/figures/proof.md")
    parser.add_argument("--minutes", type=int, default=MINUTES, help="stop a section after so many minutes")
    return parser.parse_args(arguments)


def run_section(name: str, limit_minutes: int) -> Result:
    """Run the commands of a section, all with one seed."""
    seed = secrets.randbelow(10**6)
    began = time.monotonic()
    closings: list[str] = []
    loads: list[float] = []
    passed = True
    for command in SECTIONS[name].commands:
        print(f"duly: proof {name}: ./duly {' '.join(command)}", flush=True)
        left = limit_minutes * 60 - (time.monotonic() - began)
        code, closing = run_command(seeded(command, seed), left, loads)
        passed = passed and code == 0
        closings.append(closing)
    minutes = round((time.monotonic() - began) / 60, 1)
    load = round(statistics.fmean(loads), 1)
    return Result(name, passed, "; ".join(closings), commit(), seed, minutes, f"{datetime.now(UTC):%Y-%m-%d}", load)


def seeded(command: Sequence[str], seed: int) -> list[str]:
    """Add the seed to a command that takes one."""
    match command[0]:
        case "test":
            return [*command, f"--randomly-seed={seed}"]
        case "chaos" if "--guards" not in command:
            return [*command, "--seed", str(seed)]
        case _:
            return list(command)


def run_command(command: Sequence[str], seconds: float, loads: list[float]) -> tuple[int, str]:
    """Run a command of the launcher with a time limit; print its output and return its exit status and last line."""
    last = ""
    with subprocess.Popen(
        [str(ROOT / "duly"), *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        limit = threading.Timer(max(seconds, 0.0), running.send_signal, [signal.SIGINT])  # so that servers are stopped
        limit.start()
        assert running.stdout
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip(" =\n") or last
            loads.append(os.getloadavg()[0])
        code = running.wait()
        is_stopped = limit.finished.is_set()
        limit.cancel()
    loads.append(os.getloadavg()[0])
    return (code or 1, f"stopped at the time limit, after: {last}") if is_stopped else (code, last)


def commit() -> str:
    """Return the commit of this checkout, and whether it has uncommitted changes."""
    head = git("rev-parse", "--short", "HEAD")
    return f"{head} with changes" if git("status", "--porcelain", "--", "src", "tests", "tools") else head


def git(*arguments: str) -> str:
    """Return the output of a git command."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def write_report(results: Sequence[Result]) -> None:
    """Write the page with the newest result of every section."""
    known: dict[str, dict[str, object]] = json.loads(DATA.read_text()) if DATA.exists() else {}
    known |= {result.section: asdict(result) for result in results}
    DATA.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")
    rows = [render_row(name, known.get(name)) for name in SECTIONS]
    page = PAGE.read_text() if PAGE.exists() else "<!-- results -->\n<!-- end -->\n"
    table = "\n".join(
        [
            "| section | covers | result | minutes | load | commit | seed | day |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
        ]
    )
    PAGE.write_text(
        re.sub(r"<!-- results -->.*<!-- end -->", f"<!-- results -->\n{table}\n<!-- end -->", page, flags=re.DOTALL)
    )


def render_row(name: str, result: Mapping[str, object] | None) -> str:
    """Format a row of the page."""
    if result is None:
        return f"| `{name}` | {SECTIONS[name].covers} | not run yet | | | | | |"
    verdict = "green" if result["passed"] else "**red**"
    return (
        f"| `{name}` | {SECTIONS[name].covers} | {verdict}: {result['closing']} | {result['minutes']} | "
        f"{result.get('load') or ''} | {result['commit']} | {result['seed']} | {result['at']} |"
    )
