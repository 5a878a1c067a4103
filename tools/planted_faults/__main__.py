"""Plant every fault in turn and check whether the tests find it.

    python -m tools.planted_faults --list                        check that every fault can be planted
    python -m tools.planted_faults --json faults.json            fast tests; continues an interrupted run
    python -m tools.planted_faults --tier full --only ID,ID
    python -m tools.planted_faults --json faults.json --shard 1/2    every second fault; 2/2 runs beside it

What is likely to find a fault runs first, in one process and only until the first failure; the rest of the tier runs
when that has passed. A fault counts as found when the failed test alone fails again with it and passes without it. Full
is tried only with what fast has missed at the same commit: it contains fast.

Exit status 1 when the fast tests find less than 85 % of the faults, or the full tests less than 100 %; 2 when no fault
could be tried.
"""

import argparse
import fcntl
import json
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.planted_faults.faults import FAULTS, Fault
from tools.planted_faults.order import order_files
from tools.planted_faults.scratch import (
    Outcome,
    Refused,
    find_commit,
    find_problems,
    plant,
    refuse_changes,
    run_tests,
    scratch_clone,
)

ROOT = Path(__file__).resolve().parents[2]
IN_ORDER = ("-n0", "--randomly-dont-reorganize")
BROKEN = (3, 4)  # exit statuses of pytest when an import of its own setup fails
MAX_OTHER_FAILURES = 5
TOO_FEW, REFUSED, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True, slots=True)
class Tier:
    """Which tests are run, how long they may take, and which share of the faults they must find."""

    name: str
    arguments: tuple[str, ...]
    directories: tuple[str, ...]
    limit_seconds: float
    min_share: float


TIERS = {
    "fast": Tier("fast", (), ("tests/fast",), 40 * 60, 0.85),
    "full": Tier("full", ("--rest",), ("tests/full",), 90 * 60, 1.0),  # beyond fast, whose result is known by then
}


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one fault."""

    id: str
    digest: str
    commit: str
    tier: str
    found: bool
    by: str
    seconds: float


class Results:
    """The results so far, in a file if one is given, which several runs may share, and from which each continues."""

    def __init__(self, file: Path | None, commit: str, tier: str) -> None:
        self.file, self.commit, self.tier = file, commit, tier
        self.results: list[Result] = []
        self.read()

    def read(self) -> None:
        """Read what is in the file."""
        if self.file and self.file.exists():
            self.results = [Result(**each) for each in json.loads(self.file.read_text())]

    def find(self, name: str, digest: str = "", tier: str | None = None) -> Result | None:
        """Find the result of this fault, as it is now, at this commit and tier."""
        wanted = (name, digest, self.commit, tier or self.tier)
        return next((each for each in self.results if (each.id, each.digest, each.commit, each.tier) == wanted), None)

    def find_fault(self, fault: Fault) -> Result | None:
        """Find the result of a fault; what fast has found, full finds too."""
        result = self.find(fault.id, fault.digest)
        if result is None and self.tier == "full":
            fast = self.find(fault.id, fault.digest, "fast")
            return fast if fast and fast.found else None
        return result

    def add(self, name: str, outcome: Outcome, seconds: float, digest: str = "") -> Result:
        """Store a result."""
        found = Result(name, digest, self.commit, self.tier, not outcome.is_green, outcome.by, round(seconds, 1))
        with self.locked():
            self.read()
            self.results.append(found)
            if self.file:
                draft = self.file.with_name(f".{self.file.name}.new")
                draft.write_text(json.dumps([asdict(each) for each in self.results], indent=2) + "\n")
                draft.replace(self.file)
        return found

    @contextmanager
    def locked(self) -> Generator[None, None, None]:
        """Keep other runs from the file."""
        if not self.file:
            yield
            return
        with self.file.with_name(f".{self.file.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.planted_faults", description="Plant faults and check that the tests find them."
    )
    parser.add_argument("--list", action="store_true", help="list the faults, and check that each can be planted")
    parser.add_argument("--only", metavar="ID,ID", help="only these faults")
    parser.add_argument("--shard", metavar="K/N", default="1/1", help="each Nth fault, beginning with the Kth")
    parser.add_argument("--commit", metavar="REV", default="HEAD", help="the commit to test (default: HEAD)")
    parser.add_argument("--tier", choices=list(TIERS), default="fast", help="which tests to run (default: fast)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write results here; a file that exists is continued")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: the clone is removed
    try:
        faults = select_faults(options.only, options.shard)
        if options.list:
            return list_faults(faults)
        return try_faults(faults, TIERS[options.tier], options.json, options.commit)
    except Refused as error:
        report_progress(str(error))
        return REFUSED
    except KeyboardInterrupt:
        report_progress("interrupted; with --json FILE the next run continues from here")
        return INTERRUPTED


def select_faults(only: str | None, shard: str) -> Sequence[Fault]:
    """Return the faults selected by --only and --shard."""
    wanted = None if only is None else {name.strip() for name in only.split(",")}
    if unknown := (wanted or set[str]()) - {fault.id for fault in FAULTS}:
        raise Refused(f"--only: there is no fault {', '.join(sorted(unknown))}; see --list")
    if not (parts := re.fullmatch(r"(\d+)/(\d+)", shard)) or not 1 <= int(parts[1]) <= int(parts[2]):
        raise Refused(f"--shard: {shard!r} is not K/N, such as 1/2")
    chosen = [fault for fault in FAULTS if wanted is None or fault.id in wanted]
    return chosen[int(parts[1]) - 1 :: int(parts[2])]


def list_faults(faults: Sequence[Fault]) -> int:
    """Print the faults and the problems found in them."""
    for fault in faults:
        print(f"{fault.id:30} {fault.file:55} {fault.effect}")
    problems = find_problems(ROOT, faults)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(faults)} faults, {len(problems)} problems")
    return TOO_FEW if problems else 0


def try_faults(faults: Sequence[Fault], tier: Tier, file: Path | None, name: str) -> int:
    """Plant one fault after another in a clone, run the tests, and report."""
    if name == "HEAD":
        refuse_changes(ROOT)
    results = Results(file, find_commit(ROOT, name), tier.name)
    waiting = [fault for fault in faults if results.find_fault(fault) is None]
    report_progress(f"{len(faults)} faults, {len(waiting)} to try, tier {tier.name}, commit {results.commit[:12]}")
    if waiting:
        with scratch_clone(ROOT, results.commit) as clone:
            report_progress(f"working in {clone}")
            if problems := find_problems(clone, faults):
                raise Refused("\n".join(problems))
            try_waiting(clone, waiting, tier, results)
    return report(faults, results, tier)


def try_waiting(clone: Path, waiting: Sequence[Fault], tier: Tier, results: Results) -> None:
    """Try each fault that has no result yet, and print the progress."""
    began = time.monotonic()
    for number, fault in enumerate(waiting, 1):
        report_progress(f"[{number} of {len(waiting)}] {fault.id}: {fault.effect}")
        found = try_fault(clone, fault, tier, results)
        left = (time.monotonic() - began) / number * (len(waiting) - number) / 60
        verdict = f"found by {found.by}" if found.found else "NOT FOUND"
        report_progress(
            f"[{number} of {len(waiting)}] {fault.id}: {verdict} in {found.seconds:.0f} s, {left:.0f} minutes left"
        )


def try_fault(clone: Path, fault: Fault, tier: Tier, results: Results) -> Result:
    """Run the tests that are likely to find the fault, and all tests of the tier if these pass."""
    near = order_files(clone, fault, tier.directories)
    began = time.monotonic()
    outcome = Outcome(True, "", 0.0)
    for arguments in ([[*IN_ORDER, *near]] if near else []) + [list(tier.arguments)]:
        outcome = run_until_found(clone, fault, arguments, tier)
        if not outcome.is_green:
            break
    return results.add(fault.id, outcome, time.monotonic() - began, fault.digest)


def run_until_found(clone: Path, fault: Fault, arguments: Sequence[str], tier: Tier) -> Outcome:
    """Run tests until one fails because of the fault; a test that fails for another reason is left out and named."""
    others: list[str] = []
    while len(others) <= MAX_OTHER_FAILURES:
        with plant(clone, fault):
            outcome = run_tests(clone, [*arguments, *(f"--deselect={name}" for name in others)], tier.limit_seconds)
        if outcome.is_green or outcome.status in BROKEN or is_caused(clone, fault, outcome.by, tier):
            return outcome
        report_progress(f"{fault.id}: {outcome.by} failed, but not because of the fault")
        others.append(outcome.by)
    raise Refused(f"{fault.id}: too many tests fail for other reasons: {', '.join(others)}")


def is_caused(clone: Path, fault: Fault, test: str, tier: Tier) -> bool:
    """Does this test alone fail again with the fault, and pass without it? A busy machine fails tests, too."""
    if "::" not in test:
        raise Refused(f"{fault.id}: no result: {test}")
    with plant(clone, fault):
        fails_again = not run_tests(clone, ["-n0", test], tier.limit_seconds).is_green
    return fails_again and run_tests(clone, ["-n0", test], tier.limit_seconds).is_green


def report(faults: Sequence[Fault], results: Results, tier: Tier) -> int:
    """Print the faults found per package and those not found; return whether the share is sufficient."""
    found = {fault: result.found for fault in faults if (result := results.find_fault(fault))}
    packages: defaultdict[str, list[bool]] = defaultdict(list)
    for fault, is_found in found.items():
        packages[fault.package].append(is_found)
    for package, several in sorted(packages.items()):
        print(f"{package:12} {sum(several):4} of {len(several):4} {sum(several) / len(several):8.1%}")
    for fault in (fault for fault, is_found in found.items() if not is_found):
        print(f"not found: {fault.id} ({fault.file}): {fault.effect}")
    share = sum(found.values()) / len(found) if found else 0.0
    print(f"{'all':12} {sum(found.values()):4} of {len(found):4} {share:8.1%}; required: {tier.min_share:.0%}")
    return 0 if share >= tier.min_share else TOO_FEW


def report_progress(message: str) -> None:
    """Print the progress to standard error."""
    print(f"planted faults: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
