"""What a test costs: CPU seconds of its process and of every process it started.

Wall time says how busy the machine is; CPU time says what the test does. Fixtures that later tests share (a server, a
template) are not counted.
"""

import os
import resource
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
CPU_FIELDS = slice(11, 15)  # utime, stime, cutime, cstime in /proc/<pid>/stat, counted after the command's name


class CpuMeter:
    """The CPU time of this process and its descendants, less what was spent on shared fixtures."""

    def __init__(self) -> None:
        self.shared_seconds = 0.0
        self.sharing = False

    def read(self) -> float:
        """The CPU seconds of tests so far."""
        return cpu_seconds() - self.shared_seconds

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Leave out what is done inside; nested uses count once."""
        if self.sharing:
            yield
            return
        self.sharing = True
        began = cpu_seconds()
        try:
            yield
        finally:
            self.shared_seconds += cpu_seconds() - began
            self.sharing = False


def cpu_seconds() -> float:
    """CPU seconds of this process, of the children it waited for, and of those that live."""
    waited = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + waited.ru_utime + waited.ru_stime + sum(map(seconds_of, descendants(os.getpid())))


def descendants(pid: int) -> Iterator[int]:
    """Every living process below this one; none where there is no /proc."""
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the process, or its thread, ended meanwhile
            for child in children.read_text().split():
                yield int(child)
                yield from descendants(int(child))


def seconds_of(pid: int) -> float:
    """The CPU seconds of a process and of the children it waited for; 0 once it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = stat[stat.rindex(")") + 2 :].split()
    return sum(map(int, fields[CPU_FIELDS])) / TICKS_PER_SECOND
