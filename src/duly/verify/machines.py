"""The state machines as the contracts draw them: what the logs are judged by.

The guards in a database refuse what is not drawn, but a guard can be switched off or replaced. So the logs are held
against the contract, line by line, and not against the guard that let them pass.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from duly.db.migrations import Names
from duly.verify.contract import contract_lines

__all__ = ["DRAWN", "Drawn", "drawn_steps"]

STANDARD = Names()
BEGINNING = ""  # what a row comes from when it is made


@dataclass(frozen=True)
class Drawn:
    """The machine of one table: what its log calls it, where it lies, and in which states something can happen."""

    name: str
    contract: str
    table: str
    state: str
    log: str = "duly.transition"
    stays: tuple[str, ...] = ()  # logged although the state stays: another holder, progress, other words

    @cached_property
    def begin(self) -> Sequence[str]:
        """The states in which a row may be made."""
        return [each[1] for each in self._lines(r"begin {place} (\S+)")]

    @cached_property
    def edges(self) -> Sequence[tuple[str, str]]:
        """From which state to which a row may go."""
        return [(each[1], each[2]) for each in self._lines(r"edge {place} (\S+) -> (\S+)")]

    @property
    def states(self) -> Sequence[str]:
        """Every state there is, in the order they are drawn."""
        return list(dict.fromkeys([*self.begin, *(state for edge in self.edges for state in edge)]))

    @property
    def steps(self) -> Sequence[tuple[str, str]]:
        """Everything that its log may tell: from where, nowhere included, to where."""
        return [
            *((BEGINNING, state) for state in self.begin),
            *self.edges,
            *((state, state) for state in self.stays),
        ]

    def _lines(self, pattern: str) -> Sequence[re.Match[str]]:
        wanted = re.compile(pattern.format(place=re.escape(f"{self.table}.{self.state}")))
        return [found for line in contract_lines(self.contract) if (found := wanted.fullmatch(line))]


DRAWN = {
    each.name: each
    for each in (
        Drawn("outbox", "duly", "duly.outbox", "status", stays=("sending",)),
        Drawn("job", "ledger", "ledger.job", "status", log="ledger.job_event", stays=("running", "canceled")),
        Drawn("post", "posts", "posts.posts", "status", stays=("PENDING",)),
        Drawn("schedule", "scheduler", "scheduler.jobs", "status", stays=("active", "paused", "archived")),
        Drawn("run", "scheduler", "scheduler.job_runs", "status"),
        Drawn("capture", "ingest", f"{STANDARD.ingest}.capture_session", "state", stays=("pending", "processing")),
        Drawn("notification", "ingest", f"{STANDARD.ingest}.schedule_notification", "delivery", stays=("sending",)),
    )
}


def drawn_steps() -> Sequence[dict[str, str]]:
    """Every step of every machine, as the invariants read them."""
    return [
        {"machine": machine.name, "before": before, "after": after}
        for machine in DRAWN.values()
        for before, after in machine.steps
    ]
