"""`duly chaos`: episodes of faults for as long as one likes; every run says its seed, and a seed repeats it."""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence

from tests.faults.episodes import EPISODES, Outcome, run_episode
from tests.faults.report import about_this_machine, as_json, totals_of, write_report

__all__ = ["main"]

EPISODE_SECONDS = 75.0
SNAPSHOT_SECONDS = 180.0


def main() -> int:
    """Run, say what was done and what came of it; 1 when a promise was broken."""
    asked = arguments()
    if asked.list:
        for name, episode in EPISODES.items():
            print(f"{name:12} {episode.about}" + (f" (not here: {why})" if (why := episode.missing()) else ""))
        return 0
    said = sys.stderr if asked.json else sys.stdout

    def report(line: str) -> None:
        print(line, file=said, flush=True)

    about = about_this_machine(asked.seed)
    report(f"duly: chaos for {asked.minutes:g} minutes with --seed {asked.seed}")
    wanted = asked.only.split(",") if asked.only else list(EPISODES)
    if unknown := [name for name in wanted if name not in EPISODES]:
        print(
            f"duly: --only {asked.only}: there is no '{unknown[0]}': choose from {', '.join(EPISODES)}", file=sys.stderr
        )
        return 2
    missing = {name: why for name in wanted if (why := EPISODES[name].missing())}
    outcomes = run([name for name in wanted if name not in missing], asked.minutes * 60, asked.seed, report)
    for name, why in missing.items():
        report(f"not run: {name}: {why}")
    if asked.report:
        for file in write_report(outcomes, missing, about):
            report(f"written: {file.name}")
    broken = [each for outcome in outcomes for each in outcome.violations]
    if asked.json:
        print(json.dumps(as_json(outcomes, missing, about)))
    else:
        report("\n".join(f"{several:8,} {name}" for name, several in sorted(totals_of(outcomes).items())))
        report(f"duly: {len(outcomes)} episodes, {len(broken)} violations, --seed {asked.seed}")
    return 1 if broken else 0


def run(names: Sequence[str], seconds: float, seed: int, report: Callable[[str], None]) -> list[Outcome]:
    """Episodes in turns until the time is over, each at least once; a broken promise ends the run."""
    chance = random.Random(seed)  # noqa: S311
    outcomes: list[Outcome] = []
    end = time.monotonic() + seconds
    while names and (len(outcomes) < len(names) or time.monotonic() < end):
        name = names[len(outcomes) % len(names)]
        drawn = chance.randrange(1, 10**6)
        length = min(SNAPSHOT_SECONDS if name == "snapshot" else EPISODE_SECONDS, seconds / len(names))
        report(f"episode {len(outcomes) + 1}: {name} with seed {drawn}")
        outcomes.append(run_episode(name, drawn, length, durable=True, report=report))
        report(f"episode {len(outcomes)}: {len(outcomes[-1].violations)} violations")
        if outcomes[-1].violations:
            report("\n".join(outcomes[-1].violations))
            break
    return outcomes


def arguments() -> argparse.Namespace:
    """What was asked for; the command says what each word means."""
    parser = argparse.ArgumentParser(prog="duly chaos", description="Break things on purpose, and see what holds.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))  # noqa: S311
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
