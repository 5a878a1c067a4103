"""How a worker tells the benchmark that handlers started: a few bytes of shared memory, no message, no system call."""

import mmap
import time
from pathlib import Path
from typing import Self

NUMBER_BYTES = 8


class StartLog:
    """How many handlers a worker has started, and when it started those of numbered jobs.

    The clock is the machine's monotonic one, which is the same in every process.
    """

    def __init__(self, path: Path, numbers: int) -> None:
        with path.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), NUMBER_BYTES * (1 + numbers))
        self.view = memoryview(self.bytes)
        self.counter = self.view[:NUMBER_BYTES].cast("q")
        self.times = self.view[NUMBER_BYTES:].cast("d")

    @classmethod
    def create(cls, path: Path, numbers: int) -> Self:
        """Create a log for jobs with numbers below this."""
        path.write_bytes(bytes(NUMBER_BYTES * (1 + numbers)))
        return cls(path, numbers)

    def record(self, number: int) -> None:
        """Record that a handler starts; a number below zero is only counted."""
        if number >= 0:
            self.times[number] = time.monotonic()
        self.counter[0] += 1

    @property
    def count(self) -> int:
        """Return how many handlers have started."""
        return self.counter[0]
