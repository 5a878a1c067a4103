"""Run a test tier several times, on an idle machine or beside a CPU hog, and record every run.

    python -m tools.repeat_tests fast --times 30 --record runs.json
    python -m tools.repeat_tests full --times 5 --hog --record runs.json

The hog is two busy processes, beside which the tests run with `nice`. An existing record is continued. Exit status 1 if
a test failed in any run.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from duly.launcher import ROOT
from tools.proof import commit

TIERS = {"fast": [], "full": ["--full"], "rest": ["--rest"], "gate": ["--gate"]}
HOG = "while True: sum(range(10_000))"
HOGS = 2
SEED = re.compile(r"--randomly-seed=(\d+)")
RED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Run:
    """One run of a tier."""

    tier: str
    beside_hog: bool
    commit: str
    seed: int
    seconds: float
    closing: str
    red: Sequence[str]


def main(arguments: Sequence[str]) -> int:
    """Run the tier the given number of times."""
    options = read_arguments(arguments)
    record: Path | None = options.record
    runs: list[dict[str, object]] = json.loads(record.read_text()) if record and record.exists() else []
    is_green = True
    for nth in range(1, options.times + 1):
        with hog() if options.hog else quiet() as prefix:
            run = run_once(options.tier, options.hog, prefix, options.logs)
        is_green = is_green and not run.red and "passed" in run.closing
        print(f"{nth} of {options.times}: {run.seconds:.0f} s, seed {run.seed}, {run.closing}", flush=True)
        for name in run.red:
            print(f"    {name}", flush=True)
        runs.append(asdict(run))
        if record:
            record.write_text(json.dumps(runs, indent=1) + "\n")
    return 0 if is_green else 1


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.repeat_tests", description="run a tier again and again")
    parser.add_argument("tier", choices=TIERS)
    parser.add_argument("--times", type=int, default=1, help="how often")
    parser.add_argument("--hog", action="store_true", help="beside two busy processes, and nice")
    parser.add_argument("--record", type=Path, help="a JSON file that gets a line for every run")
    parser.add_argument("--logs", type=Path, help="a directory that keeps the output of runs with a failure")
    return parser.parse_args(arguments)


def run_once(tier: str, beside_hog: bool, prefix: Sequence[str], logs: Path | None) -> Run:
    """Run the tier once and return the result."""
    began = time.monotonic()
    command = [*prefix, str(ROOT / "duly"), "test", *TIERS[tier]]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    seconds = time.monotonic() - began
    seed = SEED.search(ran.stdout)
    red = RED.findall(ran.stdout) if ran.returncode else []
    if ran.returncode and logs:
        logs.mkdir(parents=True, exist_ok=True)
        (logs / f"{tier}-{int(time.time())}.log").write_text(ran.stdout)
    closing = (ran.stdout.strip().splitlines() or ["nothing was printed"])[-1].strip("= ")
    unique = sorted(set(red))
    return Run(tier, beside_hog, commit(), int(seed[1]) if seed else 0, round(seconds, 1), closing, unique)


@contextmanager
def hog() -> Generator[Sequence[str], None, None]:
    """Keep two processors busy; yield the prefix that runs the tests with `nice`."""
    hogs = [subprocess.Popen([sys.executable, "-c", HOG]) for _ in range(HOGS)]
    try:
        yield ["nice", "-n", "5"]
    finally:
        for each in hogs:
            each.kill()
            each.wait()


@contextmanager
def quiet() -> Generator[Sequence[str], None, None]:
    """Run without a hog; print a warning if the machine is busy anyway."""
    if os.getloadavg()[0] > 1:
        print(f"the load is {os.getloadavg()[0]:.1f} before the run", flush=True)
    yield []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
