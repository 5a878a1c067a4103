"""`duly slo`: the service level objectives of posts."""

import sys
from dataclasses import asdict

import typer

from duly.apps.posts.slo import Objective, measure
from duly.cli.database_call import call_as_reader
from duly.cli.options import Json
from duly.cli.output import print_table, to_json

app = typer.Typer()

NOT_MET = 1


@app.command("slo")
def show_slo(as_json: Json = False) -> None:
    """Show whether the service level objectives of posts are met.

    They are: intents succeed, posts are released in time, none is stuck. Exit 1 if one is not met.

    Example: duly slo --json
    """
    objectives = call_as_reader(measure)
    if as_json:
        print(to_json([asdict(each) for each in objectives]))
    else:
        columns = ("objective", "met", "measured", "events", "bad", "budget left", "burn 1h", "burn 6h", "burn 3d")
        print_table(columns, [to_row(each) for each in objectives])
    if not all(each.is_met for each in objectives):
        sys.exit(NOT_MET)


def to_row(each: Objective) -> list[object]:
    """Convert an objective to a row of the table."""
    budget = None if each.budget_left is None else f"{each.budget_left:.1%}"
    burns = [each.burn_rates.get(window) for window in ("1h", "6h", "3d")]
    return [each.promise, "yes" if each.is_met else "NO", format_measured(each), each.events, each.bad, budget, *burns]


def format_measured(each: Objective) -> str | None:
    """Format the measured value with its unit."""
    if each.measured is None:
        return None
    return f"{each.measured:.3%}" if each.name == "intents" else f"{each.measured:.1f} s"
