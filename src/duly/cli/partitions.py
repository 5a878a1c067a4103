"""`duly partitions`: the months of the scheduler's runs, looked at, made, archived and dropped."""

from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from duly.apps.scheduler import partitions
from duly.apps.scheduler.partitions import Part, read_month
from duly.cli.asking import as_owner
from duly.cli.shown import print_table, to_json
from duly.cli.writing import whole_file, write_pages
from duly.db.pool import Pool
from duly.errors import InvalidArgument
from duly.formatting import counted

__all__ = ["archive_partition", "create_partitions", "drop_partition", "list_partitions"]

DEFAULT_AHEAD = 3


def list_partitions(as_json: bool) -> None:
    """Show the months and what lies in them."""
    found = as_owner(partitions.list_months)
    if as_json:
        print(to_json([asdict(part) for part in found]))
        return
    print_table(("partition", "from", "to", "runs", "open"), [row_of(part) for part in found])


def create_partitions(month: str | None, ahead: int | None, as_json: bool) -> None:
    """Make months that are not there."""
    if month is not None and ahead is not None:
        raise InvalidArgument(f"{month} and --ahead {ahead}: say one of the two")
    if month is not None:
        wanted = read_month(month)
        made = int(as_owner(lambda pool: partitions.create_month(pool, wanted)))
    else:
        months = DEFAULT_AHEAD if ahead is None else ahead
        made = as_owner(lambda pool: partitions.create_ahead(pool, months))
    print(to_json({"created": made}) if as_json else f"created   {counted(made, 'partition', 'partitions')}")


def archive_partition(month: str, out: Path, as_json: bool) -> None:
    """Write the runs of a month to a file."""
    wanted = read_month(month)

    async def write(pool: Pool, file: BinaryIO) -> int:
        return await write_pages("archiving runs", partitions.archive_month(pool, wanted), file)

    with whole_file(out, replace=False) as file:
        runs = as_owner(lambda pool: write(pool, file))
    told = {"month": str(wanted), "runs": runs, "file": str(out)}
    print(to_json(told) if as_json else f"archived  {counted(runs, 'run', 'runs')} of {wanted} to {out}")


def drop_partition(month: str, yes: bool, as_json: bool) -> None:
    """Drop a month, once somebody said so twice."""
    wanted = read_month(month)
    if not yes:
        raise InvalidArgument(
            f"the runs of {wanted} would go for good: write them to a file with duly partitions archive {wanted} "
            f"--out runs-{wanted}.jsonl, then say --yes"
        )
    runs = as_owner(lambda pool: partitions.drop_month(pool, wanted))
    told = {"month": str(wanted), "runs": runs}
    print(to_json(told) if as_json else f"dropped   {wanted} with {counted(runs, 'run', 'runs')}; the keys stay")


# Within ---------------------------------------------------------------------------------------------------------------


def row_of(part: Part) -> list[object]:
    """A partition as a row of the table: its bounds are midnights of UTC."""
    first, end = (f"{at:%Y-%m-%d}" if at else None for at in (part.first_at, part.end_at))
    return [part.part, first, end, f"{'~' if part.is_estimate else ''}{part.runs}", part.open_runs]
