"""`python -m bench.ingest`: what `duly bench ingest` becomes."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

from bench.ingest.ground import Ground, open_ground
from bench.ingest.report import NEEDS
from bench.ingest.scenarios import CHOICES, SCENARIOS, SIDES, Scenario, Sizes
from bench.ingest.worker import BATCH, SLOTS
from bench.report import Measure, as_json, line_of, table_of

__all__ = ["main"]


def main() -> None:
    """Measure, say each figure as it comes, and print the table."""
    asked = arguments()
    sizes = Sizes(**{field.name: getattr(asked, field.name) for field in fields(Sizes)})
    plan = plan_of(asked.only.split(",") if asked.only else list(CHOICES))
    said = sys.stderr if asked.json else sys.stdout
    measures: list[Measure] = []
    with open_ground() as ground:
        about = about_this_run(ground, sizes)
        print("\n".join(f"{name}: {value}" for name, value in about.items()), file=said, flush=True)
        for number in range(1, asked.rounds + 1):
            for measure in one_round(ground, plan, sizes, number):
                measures.append(measure)
                print(line_of(measure), file=said, flush=True)
    if asked.json:
        print(json.dumps(as_json(measures, about, NEEDS)))
    else:
        print(f"\n{table_of(measures, {name: each.what for name, each in SCENARIOS.items()}, SIDES, NEEDS)}")


def arguments() -> argparse.Namespace:
    """What was asked for; the command says what each word means."""
    parser = argparse.ArgumentParser(prog="duly bench ingest", description="Ingest beside a bare program.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    for name, size in asdict(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    return parser.parse_args()


def plan_of(choices: Sequence[str]) -> list[Scenario]:
    """Which scenarios, in their own order."""
    for word in choices:
        if word not in CHOICES:
            print(f"duly: there is no '{word}': choose from {', '.join(CHOICES)}", file=sys.stderr)
            sys.exit(2)
    return [SCENARIOS[name] for choice, names in CHOICES.items() if choice in choices for name in names]


def one_round(ground: Ground, plan: Sequence[Scenario], sizes: Sizes, number: int) -> Iterator[Measure]:
    """Every scenario by every side, who was first last time is last now; a commit is probed before and after each."""
    for scenario in plan:
        turn = (number - 1) % len(scenario.sides)
        for side in [*scenario.sides[turn:], *scenario.sides[:turn]]:
            before = ground.probe_milliseconds()
            figures = scenario.measure(ground, side, sizes)
            yield Measure(number, scenario.name, side, figures, before, ground.probe_milliseconds())


def about_this_run(ground: Ground, sizes: Sizes) -> dict[str, object]:
    """Everything that the figures depend on, as far as we know it."""
    return {
        "server": ground.describe(),
        "machine": f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
        "sizes": asdict(sizes),
        "setting": f"one worker, {SLOTS} slots, batches of {BATCH}; sessions given as data, half of them a change",
    }


if __name__ == "__main__":
    main()
