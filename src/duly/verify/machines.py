"""The state machines of the contracts, which the logs are checked against.

The guards in a database refuse illegal transitions, but a guard can be disabled or replaced. So the logs are compared
with the contract, and not with the guard that wrote them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from duly.applications import Machine, list_applications
from duly.verify.contract import contract_lines

NO_STATE = ""  # the previous state of a new row


@dataclass(frozen=True)
class ContractMachine(Machine):
    """A state machine, and the contract that has its initial states and edges."""

    contract: str = ""

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
        regex = re.compile(pattern.format(column=re.escape(f"{self.table}.{self.column}")))
        return [found for line in contract_lines(self.contract) if (found := regex.fullmatch(line))]


ENGINE_MACHINES = {
    "duly": (Machine("outbox", "duly.outbox", "status", stays=("sending",)),),
    "ledger": (Machine("job", "ledger.job", "status", log="ledger.job_event", stays=("running", "canceled")),),
}
CONTRACT_MACHINES = {
    machine.name: ContractMachine(**vars(machine), contract=contract)
    for contract, machines in (ENGINE_MACHINES | {each.name: each.machines for each in list_applications()}).items()
    for machine in machines
}


def list_steps() -> Sequence[dict[str, str]]:
    """Return every step of every machine, as the parameter of the invariants."""
    return [
        {"machine": machine.name, "before": before, "after": after}
        for machine in CONTRACT_MACHINES.values()
        for before, after in machine.steps
    ]
