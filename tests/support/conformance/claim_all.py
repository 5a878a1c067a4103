"""A process that claims from a lease table until nothing is due, and prints every claimed key: `<dsn> <table>`."""

import asyncio
import sys

from duly.db.pool import connect
from tests.support.conformance.tables import EVERY_SHAPE, Shape
from tests.support.processes import print_line


async def claim_all(dsn: str, shape: Shape) -> None:
    """Claim in batches of seven, under a worker id that every process shares."""
    async with await connect(dsn) as connection:
        while leases := await shape.claim(connection, "worker-1", lease_seconds=60, limit=7):
            for lease in leases:
                print(lease.key)


def main() -> None:
    """Claim after a line on standard input."""
    dsn, name = sys.argv[1:]
    print_line("ready")
    sys.stdin.readline()
    asyncio.run(claim_all(dsn, next(shape for shape in EVERY_SHAPE if str(shape.table) == name)))
    print_line("end")
