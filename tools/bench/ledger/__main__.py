"""`python -m tools.bench.ledger`: `duly bench ledger`."""

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields

from tools.bench.ledger.report import GOALS
from tools.bench.ledger.scenarios import GROUPS, SCENARIOS, SEED, Scenario
from tools.bench.ledger.server import LedgerServer, open_server
from tools.bench.ledger.sizes import Sizes
from tools.bench.ledger.system import DULY, NAMES, load_system
from tools.bench.report import Measure, as_json, format_measure, format_table


def main() -> None:
    """Measure, print each measure as it comes, and print the table."""
    options = arguments()
    sizes = Sizes(**{field.name: getattr(options, field.name) for field in fields(Sizes)})
    systems = options.systems.split(",")
    plan = make_plan(options.only.split(",") if options.only else list(SCENARIOS), systems)
    output = sys.stderr if options.json else sys.stdout
    measures: list[Measure] = []
    with open_server() as server:
        about = describe_run(server, sizes, systems)
        print("\n".join(f"{name}: {value}" for name, value in about.items()), file=output, flush=True)
        for number in range(1, options.rounds + 1):
            for measure in run_round(server, plan, sizes, number):
                measures.append(measure)
                print(format_measure(measure), file=output, flush=True)
                for statement in measure.slow_plans:  # the plans are in the JSON
                    print(f"  slow: {' '.join(statement.split())[:160]}", file=sys.stderr, flush=True)
    titles = {name: each.title for name, each in SCENARIOS.items()}
    if options.json:
        print(json.dumps({**as_json(measures, about, GOALS), "scenarios": titles, "columns": NAMES}))
    else:
        print(f"\n{format_table(measures, titles, NAMES, GOALS)}")


def arguments() -> argparse.Namespace:
    """Parse the options; the command documents them."""
    parser = argparse.ArgumentParser(prog="duly bench ledger", description="The ledger beside its peers.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--systems", default=",".join(NAMES))
    parser.add_argument("--json", action="store_true")
    for name, size in asdict(Sizes()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=float if name.endswith("_ms") else int, default=size)
    return parser.parse_args()


def make_plan(names: Sequence[str], systems: Sequence[str]) -> list[tuple[Scenario, list[str]]]:
    """Choose scenarios and systems; a ratio to our own drain needs that drain in the same round."""
    for word, known in [
        *((name, [*SCENARIOS, *GROUPS]) for name in names),
        *((system, list(NAMES)) for system in systems),
    ]:
        if word not in known:
            print(f"duly: there is no '{word}': choose from {', '.join(known)}", file=sys.stderr)
            sys.exit(2)
    chosen = {name for word in names for name in GROUPS.get(word, [word])}
    plan = [
        (scenario, [system for system in scenario.systems if system in systems])
        for scenario in SCENARIOS.values()
        if scenario.name in chosen
    ]
    bases = {goal.base for goal in GOALS if goal.base and goal.scenario in chosen} - chosen
    return [*((SCENARIOS[base], [DULY]) for base in bases if DULY in systems), *plan]


def run_round(
    server: LedgerServer, plan: Sequence[tuple[Scenario, Sequence[str]]], sizes: Sizes, number: int
) -> Iterator[Measure]:
    """Measure every scenario by every system, each round beginning with another system, between two commit probes."""
    for scenario, systems in plan:
        turn = (number - 1) % max(1, len(systems))
        for name in [*systems[turn:], *systems[:turn]]:
            server.read_slow_plans()
            before = server.probe_milliseconds()
            figures = scenario.measure(server, load_system(name), sizes)
            plans = server.read_slow_plans()
            yield Measure(number, scenario.name, name, figures, before, server.probe_milliseconds(), plans)


def describe_run(server: LedgerServer, sizes: Sizes, systems: Sequence[str]) -> dict[str, object]:
    """Describe what the figures depend on, as far as it is known."""
    return {
        "server": server.describe(),
        "machine": f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
        "sizes": asdict(sizes),
        "systems": {name: load_system(name).setting for name in systems},
        "seed": SEED,
    }


if __name__ == "__main__":
    main()
