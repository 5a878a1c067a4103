"""Run a benchmark: every scenario by every variant, in turns; each measure is printed as it comes, then the table."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

from tools.bench.report import Figures, Goal, Measure, as_json, format_measure, format_table
from tools.bench.server import Server

AnyServer = TypeVar("AnyServer", bound=Server)
Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class Scenario(Generic[AnyServer, Sizes]):
    """One thing to measure, and its variants."""

    name: str
    what: str
    measure: Callable[[AnyServer, str, Sizes], Figures]
    variants: Sequence[str]


@dataclass(frozen=True)
class Bench(Generic[AnyServer, Sizes]):
    """A benchmark: its scenarios, the server that they run on, and its goals."""

    prog: str
    description: str
    sizes: Callable[..., Sizes]
    scenarios: Mapping[str, Scenario[AnyServer, Sizes]]
    choices: Mapping[str, Sequence[str]]
    variants: Sequence[str]
    goals: Sequence[Goal]
    open_server: Callable[[], AbstractContextManager[AnyServer]]
    setting: str
    seed: str  # of what is drawn by lot, or that nothing is

    def main(self) -> None:
        """Measure, print each measure as it comes, and print the table."""
        options = self.arguments()
        sizes = self.sizes(**{field.name: getattr(options, field.name) for field in self.fields()})
        plan = self.make_plan(options.only.split(",") if options.only else list(self.choices))
        output = sys.stderr if options.json else sys.stdout
        measures: list[Measure] = []
        with self.open_server() as server:
            about = self.describe_run(server, sizes)
            print("\n".join(f"{name}: {value}" for name, value in about.items()), file=output, flush=True)
            for number in range(1, options.rounds + 1):
                for measure in run_round(server, plan, sizes, number):
                    measures.append(measure)
                    print(format_measure(measure), file=output, flush=True)
        words = {name: each.what for name, each in self.scenarios.items()}
        if options.json:
            print(json.dumps({**as_json(measures, about, self.goals), "scenarios": words, "columns": self.variants}))
        else:
            print(f"\n{format_table(measures, words, self.variants, self.goals)}")

    def fields(self) -> Sequence[Any]:
        """List the names of the sizes."""
        made: Any = self.sizes()
        return fields(made)

    def arguments(self) -> argparse.Namespace:
        """Parse the options; the command documents them."""
        parser = argparse.ArgumentParser(prog=self.prog, description=self.description)
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--only", default="")
        parser.add_argument("--json", action="store_true")
        made: Any = self.sizes()
        for name, size in asdict(made).items():
            kind = float if name.endswith("_seconds") else int
            parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=size)
        return parser.parse_args()

    def make_plan(self, choices: Sequence[str]) -> list[Scenario[AnyServer, Sizes]]:
        """Choose scenarios, in their own order."""
        for word in choices:
            if word not in self.choices:
                print(f"duly: there is no '{word}': choose from {', '.join(self.choices)}", file=sys.stderr)
                sys.exit(2)
        return [self.scenarios[name] for choice, names in self.choices.items() if choice in choices for name in names]

    def describe_run(self, server: AnyServer, sizes: Sizes) -> dict[str, object]:
        """Describe what the figures depend on, as far as it is known."""
        known: Any = sizes
        return {
            "server": server.describe(),
            "machine": f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
            "sizes": asdict(known),
            "setting": self.setting,
            "seed": self.seed,
        }


def run_round(
    server: AnyServer, plan: Sequence[Scenario[AnyServer, Sizes]], sizes: Sizes, number: int
) -> Iterator[Measure]:
    """Measure every scenario by every variant, each round beginning with another, between two commit probes."""
    for scenario in plan:
        turn = (number - 1) % len(scenario.variants)
        for variant in [*scenario.variants[turn:], *scenario.variants[:turn]]:
            before = server.probe_milliseconds()
            figures = scenario.measure(server, variant, sizes)
            yield Measure(number, scenario.name, variant, figures, before, server.probe_milliseconds())
