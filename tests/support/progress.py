"""What a run of tests shows: the tier, the number of tests, how far it is, and about how long it will take.

On a terminal one line is rewritten; elsewhere (CI, a pipe) a line is added every few seconds. `-v` and `-q` give
pytest's own output instead.
"""

import os
import sys
import time
from collections.abc import Sequence

import pytest

LINE_SECONDS = 15.0  # between two lines where nothing can be rewritten
REWRITE_SECONDS = 0.2
SLOWEST = 10


class Progress:
    """The progress of one run, shown by its first process."""

    def __init__(self, terminal: pytest.TerminalReporter, title: str) -> None:
        self.terminal = terminal
        self.began = time.monotonic()
        self.shown_at = 0.0
        self.total = 0
        self.finished = 0
        self.failed = 0
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.say(f"duly: {title}; collecting tests")

    # Hooks ------------------------------------------------------------------------------------------------------------

    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        """A process knows its tests; all of them have the same."""
        self.note_total(len(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The same, where there is one process."""
        if session.items:
            self.note_total(len(session.items))

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No test leaves a letter: the line of progress counts those that passed, and each other has its own line."""
        if report.passed:
            return ("passed" if report.when == "call" else "", "", "")
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test when it is over; name one that failed at once."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if "cpu" in (properties := dict(report.user_properties)):
            self.cpu_seconds[report.nodeid] = float(str(properties["cpu"]))
        if report.failed:
            self.failed += 1
            self.clear()
            self.say(f"{'FAILED' if report.when == 'call' else 'ERROR'} {report.nodeid}", red=True)
        if report.when == "teardown":
            self.finished += 1
            self.show()

    def pytest_terminal_summary(self) -> None:
        """The tests that took longest."""
        self.clear()
        slowest = sorted(self.seconds, key=lambda nodeid: -self.seconds[nodeid])[:SLOWEST]
        if len(self.seconds) > SLOWEST:
            self.terminal.write_line(f"the {SLOWEST} slowest tests (seconds, of which CPU):")
            for nodeid in slowest:
                cpu = f"{self.cpu_seconds[nodeid]:6.2f}" if nodeid in self.cpu_seconds else "      "
                self.terminal.write_line(f"{self.seconds[nodeid]:7.2f} {cpu}  {nodeid}")

    # What is shown ----------------------------------------------------------------------------------------------------

    def note_total(self, total: int) -> None:
        """Say once how many tests there are."""
        if not self.total:
            self.total = total
            self.began = time.monotonic()
            self.shown_at = self.began
            self.say(f"duly: {total:,} tests")

    def show(self) -> None:
        """The line of progress, if it is time for one."""
        now = time.monotonic()
        if now - self.shown_at < (REWRITE_SECONDS if self.is_terminal else LINE_SECONDS) or not self.total:
            return
        self.shown_at = now
        elapsed = now - self.began
        left = elapsed / self.finished * (self.total - self.finished)
        failed = f", {self.failed} failed" if self.failed else ""
        line = (
            f"{100 * self.finished // self.total:3} %  {self.finished:,} of {self.total:,} tests{failed}, "
            f"{minutes(elapsed)}, about {minutes(left)} left"
        )
        if self.is_terminal:
            self.terminal.write(f"\r\x1b[2K{line}", flush=True)
        else:
            self.say(line)

    def say(self, line: str, **style: bool) -> None:
        """A line of its own, at once: into a pipe it would wait for others."""
        self.terminal.write_line(line, **style)
        self.terminal.flush()

    def clear(self) -> None:
        """Remove a line that would be rewritten, so that another can follow."""
        if self.is_terminal:
            self.terminal.write("\r\x1b[2K", flush=True)


def minutes(seconds: float) -> str:
    """A duration as people say it."""
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
