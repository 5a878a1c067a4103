"""The state machines of the contracts, which the logs are checked against.

The guards in a database refuse illegal transitions, but a guard can be disabled or replaced. So the logs are compared
with the contract, and not with the guard that wrote them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from duly.db.migrations import Names
from duly.verify.contract import contract_lines

STANDARD = Names()
NO_STATE = ""  # the previous state of a new row


@dataclass(frozen=True)
class ContractMachine:
    """The state machine of one table: its name in the log, its table and column, and states that log without a move."""

    name: str
    contract: str
    table: str
    state: str
    log: str = "duly.transition"
    stays: tuple[str, ...] = ()  # states with events that keep the state: another owner, progress, another text

    @cached_property
    def begin(self) -> Sequence[str]:
        """The initial states."""
        return [each[1] for each in self._find_lines(r"begin {column} (\S+)")]

    @cached_property
    def edges(self) -> Sequence[tuple[str, str]]:
        """The transitions, as previous and next state."""
        return [(each[1], each[2]) for each in self._find_lines(r"edge {column} (\S+) -> (\S+)")]

    @property
    def states(self) -> Sequence[str]:
        """All states, in the order of the contract."""
        return list(dict.fromkeys([*self.begin, *(state for edge in self.edges for state in edge)]))

    @property
    def steps(self) -> Sequence[tuple[str, str]]:
        """Everything that its log may contain, as previous and next state; NO_STATE for a new row."""
        return [
            *((NO_STATE, state) for state in self.begin),
            *self.edges,
            *((state, state) for state in self.stays),
        ]

    def _find_lines(self, pattern: str) -> Sequence[re.Match[str]]:
        regex = re.compile(pattern.format(column=re.escape(f"{self.table}.{self.state}")))
        return [found for line in contract_lines(self.contract) if (found := regex.fullmatch(line))]


CONTRACT_MACHINES = {
    each.name: each
    for each in (
        ContractMachine("outbox", "duly", "duly.outbox", "status", stays=("sending",)),
        ContractMachine("job", "ledger", "ledger.job", "status", log="ledger.job_event", stays=("running", "canceled")),
        ContractMachine("post", "posts", "posts.posts", "status", stays=("PENDING",)),
        ContractMachine("schedule", "scheduler", "scheduler.jobs", "status", stays=("active", "paused", "archived")),
        ContractMachine("run", "scheduler", "scheduler.job_runs", "status"),
        ContractMachine(
            "capture", "ingest", f"{STANDARD.ingest}.capture_session", "state", stays=("pending", "processing")
        ),
        ContractMachine(
            "notification", "ingest", f"{STANDARD.ingest}.schedule_notification", "delivery", stays=("sending",)
        ),
    )
}


def list_steps() -> Sequence[dict[str, str]]:
    """Return every step of every machine, as the parameter of the invariants."""
    return [
        {"machine": machine.name, "before": before, "after": after}
        for machine in CONTRACT_MACHINES.values()
        for before, after in machine.steps
    ]
