"""What workers show the process that measures, through a few bytes of shared memory: no message, no system call."""

import mmap
import time
from pathlib import Path
from typing import Self

NUMBER_BYTES = 8


class Board:
    """How many jobs a worker has begun, and when it began those that bear a number.

    The clock is the machine's monotonic one, which is the same in every process.
    """

    def __init__(self, path: Path, numbers: int) -> None:
        with path.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), NUMBER_BYTES * (1 + numbers))
        self.view = memoryview(self.bytes)
        self.count = self.view[:NUMBER_BYTES].cast("q")
        self.times = self.view[NUMBER_BYTES:].cast("d")

    @classmethod
    def make(cls, path: Path, numbers: int) -> Self:
        """A new board for jobs with numbers below this."""
        path.write_bytes(bytes(NUMBER_BYTES * (1 + numbers)))
        return cls(path, numbers)

    def begin(self, number: int) -> None:
        """A handler begins; a number below zero is only counted."""
        if number >= 0:
            self.times[number] = time.monotonic()
        self.count[0] += 1

    @property
    def begun(self) -> int:
        """How many handlers have begun."""
        return self.count[0]
