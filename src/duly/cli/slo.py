"""`duly slo`: how the promises stand."""

import sys
from dataclasses import asdict

from duly.apps.posts.slo import Objective, measure
from duly.cli.asking import as_reader
from duly.cli.shown import print_table, to_json

__all__ = ["run_slo"]

NOT_MET = 1


def run_slo(as_json: bool) -> None:
    """Show each promise and how it stands; exit 1 when one is not kept."""
    objectives = as_reader(measure)
    if as_json:
        print(to_json([asdict(each) for each in objectives]))
    else:
        columns = ("promise", "kept", "measured", "of", "bad", "budget left", "burn 1h", "burn 6h", "burn 3d")
        print_table(columns, [row_of(each) for each in objectives])
    if not all(each.is_met for each in objectives):
        sys.exit(NOT_MET)


def row_of(each: Objective) -> list[object]:
    """An objective as a row."""
    budget = None if each.budget_left is None else f"{each.budget_left:.1%}"
    burns = [each.burn_rates.get(window) for window in ("1h", "6h", "3d")]
    return [each.promise, "yes" if each.is_met else "NO", measured_of(each), each.events, each.bad, budget, *burns]


def measured_of(each: Objective) -> str | None:
    """What was measured, with its unit."""
    if each.measured is None:
        return None
    return f"{each.measured:.3%}" if each.name == "intents" else f"{each.measured:.1f} s"
