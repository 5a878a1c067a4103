"""The outcome of each session: lines that `main.py` prints after one cycle, and the worker's log.

The contract of the worker asks for the log lines `worker.iteration.start` and `worker.iteration.end`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from duly.lease.operations import Lease
from duly.logging import get_log

MAX_OPEN_ITERATIONS = 1000

log = get_log("duly.ingest")


@dataclass(frozen=True, slots=True)
class SessionReport:
    """The outcome of a session, as a line of text, and whether the session was settled."""

    text: str
    is_settled: bool = True


LEASE_LOST = SessionReport(
    "lease lost: it expired, or another worker claimed the session; nothing was written", is_settled=False
)
RELEASED = SessionReport("released: the worker is stopping; the session can be claimed again", is_settled=False)


class SessionReports:
    """Keeps the report of each session of one cycle, and logs iterations."""

    def __init__(self, *, is_one_cycle: bool, idle_log_every: int) -> None:
        self.is_one_cycle = is_one_cycle
        self.by_session: dict[UUID, SessionReport] = {}  # of one cycle
        self.iterations = IterationLog(idle_log_every=idle_log_every)

    def start(self, leases: Sequence[Lease], *, is_only_work: bool) -> None:
        """Log a claim; its sessions count as lost until another report is recorded."""
        for lease in leases:
            self.record(lease, LEASE_LOST)
        self.iterations.start(leases, is_only_work=is_only_work)

    def record(self, lease: Lease, report: SessionReport, outcome: str | None = None) -> None:
        """Keep the report of a session, and its outcome for the log of its iteration; later ones replace them."""
        if outcome:
            self.iterations.record_outcome(lease, outcome)
        self.record_swept(lease.key, report)

    def record_swept(self, session_id: UUID, report: SessionReport) -> None:
        """Keep the report of a session of no iteration."""
        if self.is_one_cycle:
            self.by_session[session_id] = report

    @property
    def lines(self) -> list[str]:
        """One line for each session."""
        return [f"session {key}: {report.text}" for key, report in self.by_session.items()]

    @property
    def is_settled(self) -> bool:
        """Whether every session was settled."""
        return all(report.is_settled for report in self.by_session.values())


def report_recorded(result: Mapping[str, Any]) -> SessionReport:
    """Return the result of a session that was read and recorded, from its `result` column."""
    day, version, source = result["schedule_date"], result["version"], f"input: {result['input']}"
    others = format_other_days(result)
    if result["outcome"] == "unchanged":
        return SessionReport(f"{day} unchanged, still version {version} ({source}){others}")
    counts = f"{result['events']} events, {result['notifications']} messages"
    return SessionReport(f"{day} version {version} written ({counts}, {source}){others}")


def format_other_days(result: Mapping[str, Any]) -> str:
    """Format what became of the other days in the photographs, after semicolons; empty when they show one day."""
    further = [f"{day['schedule_date']} became session {day['session_id']}" for day in result.get("further_days") or ()]
    empty = [f"{day} shows no shift and was left unchanged" for day in result.get("empty_days") or ()]
    return "".join(f"; {', '.join(days)}" for days in (further, empty) if days)


# The iterations of a worker -------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Iteration:
    """A claim that returned sessions, until all of them are settled or released."""

    number: int
    sessions: int
    unfinished: set[UUID]
    outcomes: dict[UUID, str] = field(default_factory=dict[UUID, str])


class IterationLog:
    """Logs when an iteration starts, and when its last session is finished, the outcomes of its sessions."""

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
