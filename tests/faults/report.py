"""What a long run came to: a page, a picture, and everything for programs."""

import json
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.plot import Bar, bars
from duly.db.embedded.binaries import find_binaries
from duly.launcher import ROOT
from tests.faults.episodes import EPISODES, Outcome

__all__ = ["about_this_machine", "as_json", "totals_of", "write_report"]

FIGURES = ROOT / "docs" / "figures"
SURVIVED = (
    "workers killed",
    "workers stopped past their lease",
    "refused writes of zombies",
    "crash points met",
    "workers told to go",
    "workers with another clock",
    "postmaster kills",
    "immediate stops",
    "disks filled",
    "backends ended",
    "poolers that died by themselves",
    "commits whose answer was lost",
    "answers lost for a while",
    "half-open connections",
    "wires cut",
    "receiver troubles",
    "clients killed",
    "clock jumps",
    "seconds under a held snapshot",
    "migrations under load",
)
WITNESSED = (
    "acknowledged jobs",
    "acknowledged posts",
    "acknowledged captures",
    "acknowledged answers",
    "unanswered",
    "messages received",
    "messages received twice",
    "verifications",
)


def about_this_machine(seed: int) -> dict[str, object]:
    """Everything that a run depends on, as far as we know it."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    return {
        "seed": seed,
        "commit": commit,
        "when": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        "versions": f"Python {platform.python_version()}, PostgreSQL {find_binaries().version}",
    }


def totals_of(outcomes: Sequence[Outcome]) -> Counter[str]:
    """All counts of all episodes."""
    return sum((Counter(outcome.counts) for outcome in outcomes), Counter[str]())


def as_json(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> dict[str, object]:
    """Everything, for programs."""
    return {
        **about,
        "seconds": sum(outcome.seconds for outcome in outcomes),
        "totals": totals_of(outcomes),
        "not_run": dict(missing),
        "violations": [each for outcome in outcomes for each in outcome.violations],
        "episodes": [asdict(outcome) for outcome in outcomes],
    }


def write_report(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> list[Path]:
    """The page, its picture, and its data; the files."""
    written = {
        "chaos.md": page_of(outcomes, missing, about),
        "chaos.svg": picture_of(outcomes, about),
        "chaos.data.json": json.dumps(as_json(outcomes, missing, about), indent=1) + "\n",
    }
    for name, text in written.items():
        (FIGURES / name).write_text(text)
    return [FIGURES / name for name in written]


def picture_of(outcomes: Sequence[Outcome], about: Mapping[str, object]) -> str:
    """What was survived."""
    totals = totals_of(outcomes)
    rows = [Bar(name, float(totals[name])) for name in SURVIVED if totals[name]]
    return bars("Survived, with no promise broken", rows, "", is_one_scale=True, foot=f"seed {about['seed']}")


def page_of(outcomes: Sequence[Outcome], missing: Mapping[str, str], about: Mapping[str, object]) -> str:
    """The page of figures."""
    totals = totals_of(outcomes)
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    broken = [each for outcome in outcomes for each in outcome.violations]
    lines = [
        "<!-- Written by: duly chaos --report -->",
        "# Faults survived",
        "",
        f"{minutes:.0f} minutes of faults in {len(outcomes)} episodes, each in a world of its own: a durable server, "
        "workers over every kind of work under one name, clients that note what they were told, and a receiver that "
        f"notes what came. After each every promise was held against it: **{len(broken)} violations**.",
        "",
        *(f"- {name}: {value}" for name, value in about.items()),
        f"- again: `./duly chaos --minutes {minutes:.0f} --seed {about['seed']}`",
        "",
        "![What was survived](chaos.svg)",
        "",
        "| survived | times |",
        "|---|---|",
        *(f"| {name} | {totals[name]:,} |" for name in SURVIVED),
        "",
        "| witnessed | |",
        "|---|---|",
        *(f"| {name} | {totals[name]:,} |" for name in WITNESSED),
        "",
        "| episode | what | seed | seconds | violations |",
        "|---|---|---|---|---|",
        *map(row_of, outcomes),
        "",
        "Not run on this machine: "
        + ("; ".join(f"{name} ({why})" for name, why in missing.items()) or "nothing")
        + ".",
        "",
        "Handlers that burn the interpreter, abort, end by a segmentation fault, eat memory or never end are among the "
        "jobs of every episode; so are storms of requests for one post and of taps on one run. `unanswered` counts how "
        "often a client had to ask again because no answer came. Messages that came twice did so under their own id, "
        "and no oftener than the log tells of tries.",
    ]
    if broken:
        lines += ["", "## Violations", "", *(f"- {each}" for each in broken[:50])]
    return "\n".join(lines) + "\n"


def row_of(outcome: Outcome) -> str:
    """An episode in a line."""
    about, several = EPISODES[outcome.episode].about, len(outcome.violations)
    return f"| {outcome.episode} | {about} | {outcome.seed} | {outcome.seconds:.0f} | {several} |"
