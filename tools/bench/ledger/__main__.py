"""`python -m tools.bench.ledger`: what `duly bench ledger` becomes."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

from tools.bench.ledger.ground import Ground, open_ground
from tools.bench.ledger.report import NEEDS
from tools.bench.ledger.scenarios import SCENARIOS, SEED, Scenario, Sizes
from tools.bench.ledger.side import NAMES, OURS, side_of
from tools.bench.report import Measure, as_json, line_of, table_of


def main() -> None:
    """Measure, say each figure as it comes, and print the table."""
    asked = arguments()
    sizes = Sizes(**{field.name: getattr(asked, field.name) for field in fields(Sizes)})
    sides = asked.sides.split(",")
    plan = plan_of(asked.only.split(",") if asked.only else list(SCENARIOS), sides)
    said = sys.stderr if asked.json else sys.stdout
    measures: list[Measure] = []
    with open_ground() as ground:
        about = about_this_run(ground, sizes, sides)
        print("\n".join(f"{name}: {value}" for name, value in about.items()), file=said, flush=True)
        for number in range(1, asked.rounds + 1):
            for measure in one_round(ground, plan, sizes, number):
                measures.append(measure)
                print(line_of(measure), file=said, flush=True)
    words = {name: each.what for name, each in SCENARIOS.items()}
    if asked.json:
        print(json.dumps({**as_json(measures, about, NEEDS), "scenarios": words, "columns": NAMES}))
    else:
        print(f"\n{table_of(measures, words, NAMES, NEEDS)}")


def arguments() -> argparse.Namespace:
    """What was asked for; the command says what each word means."""
    parser = argparse.ArgumentParser(prog="duly bench ledger", description="The ledger beside its peers.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--sides", default=",".join(NAMES))
    parser.add_argument("--json", action="store_true")
    for name, size in asdict(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float if name.endswith("_ms") else int, default=size)
    return parser.parse_args()


def plan_of(names: Sequence[str], sides: Sequence[str]) -> list[tuple[Scenario, list[str]]]:
    """Which scenarios by which sides; a ratio to our own drain needs that drain in the same round."""
    for word, known in [*((name, list(SCENARIOS)) for name in names), *((side, list(NAMES)) for side in sides)]:
        if word not in known:
            print(f"duly: there is no '{word}': choose from {', '.join(known)}", file=sys.stderr)
            sys.exit(2)
    plan = [
        (scenario, [side for side in scenario.sides if side in sides])
        for scenario in SCENARIOS.values()
        if scenario.name in names
    ]
    bases = {need.base for need in NEEDS if need.base and need.scenario in names} - set(names)
    return [*((SCENARIOS[base], [OURS]) for base in bases if OURS in sides), *plan]


def one_round(
    ground: Ground, plan: Sequence[tuple[Scenario, Sequence[str]]], sizes: Sizes, number: int
) -> Iterator[Measure]:
    """Every scenario by every side, who was first last time is last now; a commit is probed before and after each."""
    for scenario, sides in plan:
        turn = (number - 1) % max(1, len(sides))
        for name in [*sides[turn:], *sides[:turn]]:
            before = ground.probe_milliseconds()
            figures = scenario.measure(ground, side_of(name), sizes)
            yield Measure(number, scenario.name, name, figures, before, ground.probe_milliseconds())


def about_this_run(ground: Ground, sizes: Sizes, sides: Sequence[str]) -> dict[str, object]:
    """Everything that the figures depend on, as far as we know it."""
    return {
        "server": ground.describe(),
        "machine": f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
        "sizes": asdict(sizes),
        "sides": {name: side_of(name).setting for name in sides},
        "seed": SEED,
    }


if __name__ == "__main__":
    main()
