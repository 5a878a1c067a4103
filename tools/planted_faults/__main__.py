"""Plant every fault in turn and see whether the tests notice.

    python -m tools.planted_faults --list                        are all faults still plantable?
    python -m tools.planted_faults --json faults.json            fast tests; a stopped run is continued
    python -m tools.planted_faults --tier full --only ID,ID

Exit status 1 when the fast tests found less than 85 %, or all tests less than all; 2 when nothing could be tried.
"""

import argparse
import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.planted_faults.faults import FAULTS, Fault
from tools.planted_faults.scratch import (
    Outcome,
    Refused,
    commit_of,
    plant,
    problems_of,
    refuse_changes,
    run_tests,
    scratch_clone,
)

ROOT = Path(__file__).resolve().parents[2]
BASELINE = "baseline"  # the id of the run without any fault
TOO_FEW, REFUSED, INTERRUPTED = 1, 2, 130


@dataclass(frozen=True, slots=True)
class Tier:
    """Which tests are run, how long they may take, and which share of the faults they must find."""

    name: str
    arguments: tuple[str, ...]
    directories: tuple[str, ...]  # in which a package has tests of its own
    limit_seconds: float
    least_share: float


TIERS = {
    "fast": Tier("fast", (), ("tests/fast",), 20 * 60, 0.85),
    "full": Tier("full", ("--full",), ("tests/fast", "tests/full"), 60 * 60, 1.0),
}


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one fault, or of the run without any."""

    id: str
    digest: str
    commit: str
    tier: str
    found: bool
    by: str
    seconds: float


class Book:
    """The results so far, in a file where one is named: written after every fault, so that a run can be continued."""

    def __init__(self, file: Path | None, commit: str, tier: str) -> None:
        self.file, self.commit, self.tier = file, commit, tier
        self.results = [Result(**each) for each in json.loads(file.read_text())] if file and file.exists() else []

    def find(self, name: str, digest: str = "") -> Result | None:
        """Find the result of this fault, as it is now, at this commit and tier."""
        wanted = (name, digest, self.commit, self.tier)
        return next((each for each in self.results if (each.id, each.digest, each.commit, each.tier) == wanted), None)

    def add(self, name: str, outcome: Outcome, seconds: float, digest: str = "") -> Result:
        """Write a result down."""
        found = Result(name, digest, self.commit, self.tier, not outcome.is_green, outcome.by, round(seconds, 1))
        self.results.append(found)
        if self.file:
            draft = self.file.with_name(f".{self.file.name}.new")
            draft.write_text(json.dumps([asdict(each) for each in self.results], indent=2) + "\n")
            draft.replace(self.file)
        return found


def main() -> int:
    """Read the command line and do what it asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.planted_faults", description="Do the tests still bite?")
    parser.add_argument("--list", action="store_true", help="list the faults, and check that each can be planted")
    parser.add_argument("--only", metavar="ID,ID", help="only these faults")
    parser.add_argument("--tier", choices=list(TIERS), default="fast", help="which tests to run (default: fast)")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write results here; a file that exists is continued")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends like Ctrl-C: the clone is removed
    try:
        faults = chosen(asked.only)
        return list_faults(faults) if asked.list else try_faults(faults, TIERS[asked.tier], asked.json)
    except Refused as error:
        tell(str(error))
        return REFUSED
    except KeyboardInterrupt:
        tell("stopped; with --json FILE the next run goes on from here")
        return INTERRUPTED


def chosen(only: str | None) -> Sequence[Fault]:
    """Return the faults that were asked for."""
    wanted = None if only is None else {name.strip() for name in only.split(",")}
    if unknown := (wanted or set[str]()) - {fault.id for fault in FAULTS}:
        raise Refused(f"--only: there is no fault {', '.join(sorted(unknown))}; see --list")
    return [fault for fault in FAULTS if wanted is None or fault.id in wanted]


def list_faults(faults: Sequence[Fault]) -> int:
    """Print the faults, and what is wrong with them."""
    for fault in faults:
        print(f"{fault.id:30} {fault.file:55} {fault.why}")
    problems = problems_of(ROOT, faults)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(faults)} faults, {len(problems)} problems")
    return TOO_FEW if problems else 0


def try_faults(faults: Sequence[Fault], tier: Tier, file: Path | None) -> int:
    """Plant one fault after another in a clone, run the tests, and report."""
    refuse_changes(ROOT)
    if problems := problems_of(ROOT, faults):
        raise Refused("\n".join(problems))
    book = Book(file, commit_of(ROOT), tier.name)
    waiting = [fault for fault in faults if book.find(fault.id, fault.digest) is None]
    tell(f"{len(faults)} faults, {len(waiting)} to try, tier {tier.name}, commit {book.commit[:12]}")
    if waiting:
        with scratch_clone(ROOT) as clone:
            tell(f"working in {clone}")
            must_be_green(clone, tier, book)
            try_waiting(clone, waiting, tier, book)
    return report(faults, book, tier)


def must_be_green(clone: Path, tier: Tier, book: Book) -> None:
    """Refuse to go on when the tests fail without any fault."""
    if book.find(BASELINE):
        return
    tell(f"running the tests without a fault first, at most {tier.limit_seconds / 60:.0f} minutes")
    outcome = run_tests(clone, tier.arguments, tier.limit_seconds)
    if not outcome.is_green:
        raise Refused(f"{outcome.tail}\nthe tests fail without any fault: {outcome.by}")
    book.add(BASELINE, outcome, outcome.seconds)
    tell(f"green in {outcome.seconds / 60:.1f} minutes")


def try_waiting(clone: Path, waiting: Sequence[Fault], tier: Tier, book: Book) -> None:
    """Try each fault that has no result yet, and tell how far it is."""
    began = time.monotonic()
    for number, fault in enumerate(waiting, 1):
        tell(f"[{number} of {len(waiting)}] {fault.id}: {fault.why}")
        found = try_fault(clone, fault, tier, book)
        left = (time.monotonic() - began) / number * (len(waiting) - number) / 60
        words = f"found by {found.by}" if found.found else "NOT FOUND"
        tell(f"[{number} of {len(waiting)}] {fault.id}: {words} in {found.seconds:.0f} s, {left:.0f} minutes left")


def try_fault(clone: Path, fault: Fault, tier: Tier, book: Book) -> Result:
    """Run the tests of the fault's own package, and all of them when these are green."""
    own = [f"{directory}/{fault.package}" for directory in tier.directories]
    near = [path for path in own if any((clone / path).rglob("test_*.py"))]
    outcome, seconds = Outcome(True, "", 0.0), 0.0
    with plant(clone, fault):
        for arguments in ([near] if near else []) + [list(tier.arguments)]:
            outcome = run_tests(clone, arguments, tier.limit_seconds)
            seconds += outcome.seconds
            if not outcome.is_green:
                break
    return book.add(fault.id, outcome, seconds, fault.digest)


def report(faults: Sequence[Fault], book: Book, tier: Tier) -> int:
    """Print what was found by package, and what was not; say whether it is enough."""
    found = {fault: result.found for fault in faults if (result := book.find(fault.id, fault.digest))}
    packages: defaultdict[str, list[bool]] = defaultdict(list)
    for fault, is_found in found.items():
        packages[fault.package].append(is_found)
    for package, several in sorted(packages.items()):
        print(f"{package:12} {sum(several):4} of {len(several):4} {sum(several) / len(several):8.1%}")
    for fault in (fault for fault, is_found in found.items() if not is_found):
        print(f"not found: {fault.id} ({fault.file}): {fault.why}")
    share = sum(found.values()) / len(found) if found else 0.0
    print(
        f"{'all':12} {sum(found.values()):4} of {len(found):4} {share:8.1%}; at least {tier.least_share:.0%} are wanted"
    )
    return 0 if share >= tier.least_share else TOO_FEW


def tell(message: str) -> None:
    """Say on stderr how far it is."""
    print(f"planted faults: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
