"""How a benchmark runs: every scenario by every side, in turns; each figure is said as it comes, then the table."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

from tools.bench.ground import Server
from tools.bench.report import Figures, Measure, Need, as_json, line_of, table_of

Ground = TypeVar("Ground", bound=Server)
Sizes = TypeVar("Sizes")


@dataclass(frozen=True)
class Scenario(Generic[Ground, Sizes]):
    """One thing to measure, and by whom."""

    name: str
    what: str
    measure: Callable[[Ground, str, Sizes], Figures]
    sides: Sequence[str]


@dataclass(frozen=True)
class Bench(Generic[Ground, Sizes]):
    """A benchmark: what there is to measure, on which ground, and what is needed."""

    prog: str
    description: str
    sizes: Callable[..., Sizes]
    scenarios: Mapping[str, Scenario[Ground, Sizes]]
    choices: Mapping[str, Sequence[str]]
    sides: Sequence[str]
    needs: Sequence[Need]
    open_ground: Callable[[], AbstractContextManager[Ground]]
    setting: str
    seed: str  # of what is drawn by lot, or that nothing is

    def main(self) -> None:
        """Measure, say each figure as it comes, and print the table."""
        asked = self.arguments()
        sizes = self.sizes(**{field.name: getattr(asked, field.name) for field in self.fields()})
        plan = self.plan_of(asked.only.split(",") if asked.only else list(self.choices))
        said = sys.stderr if asked.json else sys.stdout
        measures: list[Measure] = []
        with self.open_ground() as ground:
            about = self.about_this_run(ground, sizes)
            print("\n".join(f"{name}: {value}" for name, value in about.items()), file=said, flush=True)
            for number in range(1, asked.rounds + 1):
                for measure in one_round(ground, plan, sizes, number):
                    measures.append(measure)
                    print(line_of(measure), file=said, flush=True)
        words = {name: each.what for name, each in self.scenarios.items()}
        if asked.json:
            print(json.dumps({**as_json(measures, about, self.needs), "scenarios": words, "columns": self.sides}))
        else:
            print(f"\n{table_of(measures, words, self.sides, self.needs)}")

    def fields(self) -> Sequence[Any]:
        """What the sizes are called."""
        made: Any = self.sizes()
        return fields(made)

    def arguments(self) -> argparse.Namespace:
        """What was asked for; the command says what each word means."""
        parser = argparse.ArgumentParser(prog=self.prog, description=self.description)
        parser.add_argument("--rounds", type=int, default=3)
        parser.add_argument("--only", default="")
        parser.add_argument("--json", action="store_true")
        made: Any = self.sizes()
        for name, size in asdict(made).items():
            kind = float if name.endswith("_seconds") else int
            parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=size)
        return parser.parse_args()

    def plan_of(self, choices: Sequence[str]) -> list[Scenario[Ground, Sizes]]:
        """Which scenarios, in their own order."""
        for word in choices:
            if word not in self.choices:
                print(f"duly: there is no '{word}': choose from {', '.join(self.choices)}", file=sys.stderr)
                sys.exit(2)
        return [self.scenarios[name] for choice, names in self.choices.items() if choice in choices for name in names]

    def about_this_run(self, ground: Ground, sizes: Sizes) -> dict[str, object]:
        """Everything that the figures depend on, as far as we know it."""
        known: Any = sizes
        return {
            "server": ground.describe(),
            "machine": f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}",
            "sizes": asdict(known),
            "setting": self.setting,
            "seed": self.seed,
        }


def one_round(ground: Ground, plan: Sequence[Scenario[Ground, Sizes]], sizes: Sizes, number: int) -> Iterator[Measure]:
    """Every scenario by every side, who was first last time is last now; a commit is probed before and after each."""
    for scenario in plan:
        turn = (number - 1) % len(scenario.sides)
        for side in [*scenario.sides[turn:], *scenario.sides[:turn]]:
            before = ground.probe_milliseconds()
            figures = scenario.measure(ground, side, sizes)
            yield Measure(number, scenario.name, side, figures, before, ground.probe_milliseconds())
