"""The log lines `worker.iteration.start` and `worker.iteration.end` that the worker's contract asks for."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from duly.lease.operations import Lease
from duly.logging import get_log

MAX_OPEN_ITERATIONS = 1000

log = get_log("duly.ingest")


@dataclass(eq=False, slots=True)
class _Iteration:
    """A claim that returned sessions, until all of them are settled or released."""

    number: int
    sessions: int
    unfinished: set[UUID]
    outcomes: dict[UUID, str] = field(default_factory=dict[UUID, str])


class IterationLog:
    """Logs when an iteration starts, and when its last session is finished, what came of its sessions."""

    def __init__(self, *, idle_log_every: int) -> None:
        self.idle_log_every = idle_log_every
        self.count = 0
        self.idle_count = 0
        self.had_sessions = False
        self._open: dict[str, _Iteration] = {}  # by lease owner, which is unique to a claim

    def start(self, leases: Sequence[Lease], *, is_only_work: bool) -> None:
        """Log a claim. Of consecutive claims without sessions the first is logged, then every `idle_log_every`th.

        Beside other work captures may be unused: until there was a session, idle claims are logged at debug.
        """
        self.count += 1
        if not leases:
            self._log_idle(is_only_work=is_only_work)
            return
        self.idle_count = 0
        self.had_sessions = True
        self._open[leases[0].owner] = _Iteration(self.count, len(leases), {lease.key for lease in leases})
        while len(self._open) > MAX_OPEN_ITERATIONS:  # the iteration of a lost session never ends
            self._open.pop(next(iter(self._open)))
        log.info("worker.iteration.start", iteration=self.count, sessions=len(leases))

    def _log_idle(self, *, is_only_work: bool) -> None:
        self.idle_count += 1
        if self.idle_count % self.idle_log_every == 1 or self.idle_log_every == 1:
            log_line = log.info if is_only_work or self.had_sessions else log.debug
            log_line("worker.iteration.start", iteration=self.count, sessions=0)
            log_line("worker.iteration.end", iteration=self.count, sessions=0)

    def record_outcome(self, lease: Lease, outcome: str) -> None:
        """Keep the outcome of a session for the line that ends its iteration."""
        if iteration := self._open.get(lease.owner):
            iteration.outcomes[lease.key] = outcome

    def finish(self, leases: Iterable[Lease]) -> None:
        """Mark sessions as finished; log the end of each iteration that has no others."""
        for lease in leases:
            if iteration := self._open.get(lease.owner):
                iteration.unfinished.discard(lease.key)
                if not iteration.unfinished:
                    del self._open[lease.owner]
                    counts = Counter(iteration.outcomes.values())
                    log.info("worker.iteration.end", iteration=iteration.number, sessions=iteration.sessions, **counts)
