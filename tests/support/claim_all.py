"""A process that claims from a lease table until nothing is due, and prints every key it got."""

import asyncio
import sys

from duly.db.pool import connect
from duly.kernel.lease import claim
from tests.laws.tables import SHAPES


async def main(dsn: str, name: str) -> None:
    """Claim, in batches of seven, under a name that every process shares."""
    shape = next(shape for shape in SHAPES if str(shape) == name)
    print("ready", flush=True)
    sys.stdin.readline()
    async with await connect(dsn) as connection:
        while leases := await claim(connection, shape.of, "worker-1", lease_seconds=60, most=7):
            for lease in leases:
                print(lease.key)
    print("end", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
