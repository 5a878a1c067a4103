"""What `duly partitions` offers."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["partitions_app"]

partitions_app = typer.Typer(
    help="Months of the scheduler's runs: made ahead, archived and dropped when they are over.", no_args_is_help=True
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
MonthName = Annotated[str, typer.Argument(metavar="MONTH", help="The month in UTC, such as 2025-01.")]


@partitions_app.command("list")
def partitions_list(as_json: Json = False) -> None:
    """Show the months, how many runs lie in each, and how many of them are open; ~ means an estimate.

    Example: duly partitions list
    """
    from duly.cli.partitions import list_partitions

    list_partitions(as_json)


@partitions_app.command("create")
def partitions_create(
    month: Annotated[
        str | None, typer.Argument(metavar="MONTH", help="This month alone, in UTC, such as 2027-01.")
    ] = None,
    ahead: Annotated[
        int | None, typer.Option(min=0, max=120, metavar="N", help="This month and so many to come. Default: 3.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make months that are not there. Runs that waited for them in the default partition move over.

    Example: duly partitions create --ahead 12
    """
    from duly.cli.partitions import create_partitions

    create_partitions(month, ahead, as_json)


@partitions_app.command("archive")
def partitions_archive(
    month: MonthName,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to; a file that is there is not written over.")],
    as_json: Json = False,
) -> None:
    """Write the runs of a month that is over to a file: a line of JSON each, in order, on the disk before it ends.

    Refused while the month is not over, and while runs of it are open. Nothing is deleted: see duly partitions drop.

    Example: duly partitions archive 2025-01 --out runs-2025-01.jsonl
    """
    from duly.cli.partitions import archive_partition

    archive_partition(month, out, as_json)


@partitions_app.command("drop")
def partitions_drop(
    month: MonthName,
    yes: Annotated[bool, typer.Option("--yes", help="Yes, these runs are to go for good.")] = False,
    as_json: Json = False,
) -> None:
    """Drop a month that is over and has no open runs. Answers, books and keys stay: no period comes twice.

    Example: duly partitions drop 2025-01 --yes
    """
    from duly.cli.partitions import drop_partition

    drop_partition(month, yes, as_json)
