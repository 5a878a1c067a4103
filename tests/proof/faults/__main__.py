"""`duly chaos`: episodes of faults for as long as one likes; every run and every episode says what repeats it."""

import argparse
import json
import random
import shlex
import sys
import time
from collections.abc import Callable, Sequence

from tests.proof.faults.episodes import EPISODES, Outcome, run_episode
from tests.proof.faults.harness import random_for
from tests.proof.faults.report import about_this_machine, as_json, load, sum_counts, write_report

EPISODE_SECONDS = 75.0
SNAPSHOT_SECONDS = 180.0


def main() -> int:
    """Run, say what was done and what came of it; 1 when a promise was broken."""
    options = arguments()
    if options.list:
        for name, each in EPISODES.items():
            print(f"{name:13} {each.about}" + (f" (not here: {reason})" if (reason := each.missing()) else ""))
        return 0
    stream = sys.stderr if options.json else sys.stdout

    def report(line: str) -> None:
        print(line, file=stream, flush=True)

    wanted = [options.episode] if options.episode else options.only.split(",") if options.only else list(EPISODES)
    if unknown := [name for name in wanted if name not in EPISODES]:
        option = f"--episode {options.episode}" if options.episode else f"--only {options.only}"
        print(f"duly: {option}: there is no '{unknown[0]}': choose from {', '.join(EPISODES)}", file=sys.stderr)
        return 2
    about = {**about_this_machine(options.seed), "again": f"`{repeat_command(options)}`"}
    before = load()
    report(f"duly: {repeat_command(options)}")
    missing = {name: reason for name in wanted if (reason := EPISODES[name].missing())}
    names = [name for name in wanted if name not in missing]
    if options.episode:
        outcomes = [episode(name, options.seed, options.seconds, report) for name in names]
    else:
        outcomes = run(names, options.minutes * 60, options.seed, report)
    about["load"] = f"{before} before, {load()} after"
    for name, reason in missing.items():
        report(f"not run: {name}: {reason}")
    if options.report:
        for file in write_report(outcomes, missing, about):
            report(f"written: {file.name}")
    broken = [each for outcome in outcomes for each in outcome.violations]
    if options.json:
        print(json.dumps(as_json(outcomes, missing, about)))
    else:
        report("\n".join(f"{several:8,} {name}" for name, several in sorted(sum_counts(outcomes).items())))
        report(f"duly: {len(outcomes)} episodes, {len(broken)} violations; again: {repeat_command(options)}")
    return 1 if broken else 0


def run(names: Sequence[str], seconds: float, seed: int, report: Callable[[str], None]) -> list[Outcome]:
    """Episodes in turns until the time is over, each at least once; a broken promise ends the run."""
    outcomes: list[Outcome] = []
    end = time.monotonic() + seconds
    while names and (len(outcomes) < len(names) or time.monotonic() < end):
        name = names[len(outcomes) % len(names)]
        drawn = random_for(seed, len(outcomes) + 1, name).randrange(1, 10**6)
        length = min(SNAPSHOT_SECONDS if name == "snapshot" else EPISODE_SECONDS, seconds / len(names))
        outcomes.append(episode(name, drawn, length, report))
        if outcomes[-1].violations:
            break
    return outcomes


def episode(name: str, seed: int, seconds: float, report: Callable[[str], None]) -> Outcome:
    """Run one episode; a violation is printed with the command that repeats it."""
    command = shlex.join(["./duly", "chaos", "--episode", name, "--seed", str(seed), "--seconds", f"{seconds:g}"])
    report(f"episode: {command}")
    try:
        outcome = run_episode(name, seed, seconds, durable=True, report=report)
    except BaseException:
        report(f"again: {command}")
        raise
    report(f"{len(outcome.violations)} violations")
    if outcome.violations:
        report("\n".join([*outcome.violations, f"again: {command}"]))
    return outcome


def repeat_command(options: argparse.Namespace) -> str:
    """The command that asks for the same, word for word."""
    parts = ["--episode", options.episode, "--seconds", f"{options.seconds:g}"] if options.episode else []
    parts += [] if options.episode else ["--minutes", f"{options.minutes:g}"]
    parts += ["--only", options.only] if options.only else []
    return shlex.join(["./duly", "chaos", *parts, "--seed", str(options.seed)])


def arguments() -> argparse.Namespace:
    """What was asked for; the command says what each word means."""
    parser = argparse.ArgumentParser(prog="duly chaos", description="Break things on purpose, and see what holds.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1, 10**6))  # noqa: S311
    parser.add_argument("--only", default="")
    parser.add_argument("--episode", default="")
    parser.add_argument("--seconds", type=float, default=EPISODE_SECONDS)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
