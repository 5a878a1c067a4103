"""A process that answers runs as fast as it can, with many keys at once, as a person's devices might.

python -m tests.support.answer_runs <dsn> <seed> <run> [<run> ...]    prints what came of each tap
"""

import asyncio
import os
import random
import sys

from duly.apps.scheduler import service
from duly.apps.scheduler.model import Action, Answer
from duly.db.pool import open_pool
from duly.errors import DulyError

ACTIONS = ("complete", "complete", "skip", "snooze", "cancel")


async def tap_all(dsn: str, seed: int, runs: list[int]) -> None:
    """A hundred taps on every run, with few keys between them, in no order."""
    chance = random.Random(seed)  # noqa: S311
    taps = [(run, chance.choice(ACTIONS), f"key{chance.randrange(30)}") for run in runs for _ in range(100)]
    chance.shuffle(taps)
    async with open_pool(dsn, size=10) as pool:

        async def tap(run: int, action: str, key: str) -> None:
            try:
                made = await service.answer_run(pool, None, run, Answer(Action(action), key))
                line = f"{type(made).__name__} {run} {action} {key}"
            except DulyError as error:
                line = f"{error.code} {run} {action} {key}"
            os.write(1, f"{line}\n".encode())

        os.write(1, b"ready\n")
        await asyncio.gather(*(tap(*each) for each in taps))
    os.write(1, b"end\n")


if __name__ == "__main__":
    asyncio.run(tap_all(sys.argv[1], int(sys.argv[2]), [int(each) for each in sys.argv[3:]]))
