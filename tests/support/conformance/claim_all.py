"""A process that claims from a lease table until nothing is due, and prints every claimed key: `<dsn> <table>`."""

import asyncio
import sys

from duly.apps.posts.states import POST
from duly.db.pool import connect
from duly.lease.operations import LeaseTable, claim
from tests.support.conformance.tables import SHAPES
from tests.support.processes import print_line

TABLES = {str(table): table for table in (*(shape.table for shape in SHAPES), POST)}


async def claim_all(dsn: str, table: LeaseTable) -> None:
    """Claim in batches of seven, under a worker id that every process shares."""
    async with await connect(dsn) as connection:
        while leases := await claim(connection, table, "worker-1", lease_seconds=60, limit=7):
            for lease in leases:
                print(lease.key)


def main() -> None:
    """Claim after a line on standard input."""
    dsn, name = sys.argv[1:]
    print_line("ready")
    sys.stdin.readline()
    asyncio.run(claim_all(dsn, TABLES[name]))
    print_line("end")
