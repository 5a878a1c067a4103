"""`duly partitions`: the monthly partitions of the scheduler's runs."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from duly.apps.scheduler import partitions
from duly.apps.scheduler.partitions import Partition, parse_month
from duly.cli.database_call import call_as_owner
from duly.cli.file_output import atomic_file, write_pages
from duly.cli.options import Json, new_group
from duly.cli.output import print_table, to_json
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.formatting import pluralize

app = new_group("Monthly partitions of the scheduler's runs: create, archive and drop them.")

DEFAULT_AHEAD = 3
MonthName = Annotated[str, typer.Argument(metavar="MONTH", help="The month in UTC, such as 2025-01.")]


@app.command("list")
def list_months(as_json: Json = False) -> None:
    """List the partitions with their runs and open runs; ~ marks an estimate.

    Example: duly partitions list
    """
    found = call_as_owner(partitions.list_months)
    if as_json:
        print(to_json([asdict(partition) for partition in found]))
        return
    print_table(("partition", "from", "to", "runs", "open"), [to_row(partition) for partition in found])


def to_row(partition: Partition) -> list[object]:
    """Convert a partition to a row of the table; its bounds are midnights in UTC."""
    first, end = (f"{at:%Y-%m-%d}" if at else None for at in (partition.first_at, partition.end_at))
    runs = f"{'~' if partition.is_estimate else ''}{partition.runs}"
    return [partition.name, first, end, runs, partition.open_runs]


@app.command("create")
def create_partitions(
    month: Annotated[
        str | None,
        typer.Argument(metavar="MONTH", help="Up to this month, such as 2027-01; a past one: from it on."),
    ] = None,
    ahead: Annotated[
        int | None, typer.Option(min=0, max=120, metavar="N", help="This month and the N next ones. Default: 3.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create missing months, and move their runs there from the past or future partition.

    The months have no gap: those between the given one and the existing ones are created, too.

    Example: duly partitions create --ahead 12
    """
    if month is not None and ahead is not None:
        raise InvalidArgument(f"{month} and --ahead {ahead}: give one of the two")
    if month is not None:
        parsed = parse_month(month)
        created = call_as_owner(lambda pool: partitions.create_month(pool, parsed))
    else:
        months = DEFAULT_AHEAD if ahead is None else ahead
        created = call_as_owner(lambda pool: partitions.create_ahead(pool, months))
    print(to_json({"created": created}) if as_json else f"created   {pluralize(created, 'partition', 'partitions')}")


@app.command("archive")
def archive_month(
    month: MonthName,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Write the runs of a past month to a file, one JSON document per line, in order, synced to disk.

    Refused before the month is over and while it has open runs. Deletes nothing: see duly partitions drop.

    Example: duly partitions archive 2025-01 --out runs-2025-01.jsonl
    """
    parsed = parse_month(month)

    async def write(pool: Pool, file: BinaryIO) -> int:
        return await write_pages("archiving runs", partitions.archive_month(pool, parsed), file)

    with atomic_file(out, replace=False) as file:
        runs = call_as_owner(lambda pool: write(pool, file))
    document = {"month": str(parsed), "runs": runs, "file": str(out)}
    print(to_json(document) if as_json else f"archived  {pluralize(runs, 'run', 'runs')} of {parsed} to {out}")


@app.command("drop")
def drop_month(
    month: MonthName,
    yes: Annotated[bool, typer.Option("--yes", help="Confirm that these runs are deleted for good.")] = False,
    as_json: Json = False,
) -> None:
    """Drop the first month, when it is past and has no open runs.

    Answers, expenses and the keys of periods stay, so that no period runs again.

    Example: duly partitions drop 2025-01 --yes
    """
    parsed = parse_month(month)
    if not yes:
        raise InvalidArgument(
            f"this deletes the runs of {parsed} for good: write them to a file with duly partitions archive {parsed} "
            f"--out runs-{parsed}.jsonl, then add --yes"
        )
    runs = call_as_owner(lambda pool: partitions.drop_month(pool, parsed))
    document = {"month": str(parsed), "runs": runs}
    print(to_json(document) if as_json else f"dropped   {parsed} with {pluralize(runs, 'run', 'runs')}; the keys stay")
