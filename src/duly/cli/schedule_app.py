"""What `duly schedule` offers."""

from typing import Annotated

import typer

__all__ = ["schedule_app"]

schedule_app = typer.Typer(help="What recurs: rules, and when they fire.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


@schedule_app.callback()
def schedule_command() -> None:
    """What recurs: rules, and when they fire."""


@schedule_app.command("next")
def next_(
    rule: Annotated[str, typer.Argument(help="`cron:` and five fields, or JSON with every, at and more.")],
    zone: Annotated[str, typer.Option(help="The person's zone; a rule may have its own.")] = "UTC",
    first: Annotated[
        str | None, typer.Option(help="When it may fire first, ISO 8601; a time without a zone is UTC. Default: now.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many times.")] = 5,
    as_json: Json = False,
) -> None:
    """Say a rule in words, and show when it fires next, in its zone and in UTC, and what each period is called.

    Example: duly schedule next 'cron: 0 10 1 * *' --zone Europe/Stockholm
    """
    from duly.cli.schedule import run_next

    run_next(rule, zone, first, count, as_json)
