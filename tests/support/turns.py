"""Turns: tests run side by side, and one that needs the machine for itself gets it.

    door    who wants to be alone closes it, and nobody else comes in
    room    who runs a test is in it; whoever wants to be alone waits until it is empty

Both are locks on files of the run, so that they count for all its processes, and die with who holds them.
"""

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Turns"]


class Turns:
    """The turns of one process, among those of all that were given the same directory."""

    def __init__(self, directory: Path) -> None:
        self.door = (directory / "door").open("w")
        self.room = (directory / "room").open("w")
        self.is_alone = False

    @contextmanager
    def beside_others(self) -> Generator[None, None, None]:
        """As soon as nobody is alone, or wants to be."""
        fcntl.flock(self.door, fcntl.LOCK_SH)
        fcntl.flock(self.room, fcntl.LOCK_SH)
        fcntl.flock(self.door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(self.room, fcntl.LOCK_UN)

    @contextmanager
    def alone(self, *, stays: bool = False) -> Generator[None, None, None]:
        """As soon as everybody has gone; `stays` is for one of several in a row, none of whom waits again."""
        if not self.is_alone:
            fcntl.flock(self.door, fcntl.LOCK_EX)
            fcntl.flock(self.room, fcntl.LOCK_EX)
            self.is_alone = True
        try:
            yield
        finally:
            if not stays:
                self.is_alone = False
                fcntl.flock(self.room, fcntl.LOCK_UN)
                fcntl.flock(self.door, fcntl.LOCK_UN)

    def close(self) -> None:
        """No more turns are taken."""
        self.door.close()
        self.room.close()
