"""What the ledger should do, in plain Python: jobs in a list, and each verb a few assignments.

Time goes in ticks, of which every wait, lease and retention is a whole number: what happens between two ticks takes far
less than one, so what is due and what has lapsed can be told without reading the database's clock. What happens at the
same tick is ordered by the number of its step.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from duly.backoff import BackoffPolicy
from duly.jobs.model import ANY, TERMINAL, Kind, Status

__all__ = ["DAY", "TICK_SECONDS", "Book", "Paper"]

TICK_SECONDS = 600.0
DAY = 144  # ticks


@dataclass
class Paper:
    """A job, as we expect it."""

    id: UUID
    kind: Kind
    asked: object  # what its key stands for
    key: str | None
    priority: int
    max_attempts: int
    retain_ticks: int
    due: tuple[int, int]
    path: list[Status] = field(default_factory=lambda: [Status.QUEUED])
    starts: int = 0
    snoozes: int = 0
    owner: str | None = None
    lapses: int = 0  # the tick at which its lease is over
    settled_by: str | None = None
    is_to_stop: bool = False
    finished: int | None = None

    @property
    def status(self) -> Status:
        """Where it is."""
        return self.path[-1]

    @property
    def policy(self) -> BackoffPolicy:
        """How it waits: its type says so."""
        return BackoffPolicy(self.kind.type)

    def row(self) -> tuple[object, ...]:
        """What the columns of its row should say."""
        attempt, revision, is_finished = max(self.starts - 1, 0), len(self.path), self.finished is not None
        counts = (self.starts, attempt, self.snoozes, revision)
        return (self.status.value, *counts, is_finished, self.owner, self.settled_by, self.is_to_stop)

    def events(self) -> list[tuple[int, str | None, str]]:
        """What its log should say."""
        before = [None, *self.path]
        return [(seq, before[seq - 1], after.value) for seq, after in enumerate(self.path, start=1)]


class Book:
    """Every job of an org, and what rests."""

    def __init__(self) -> None:
        self.papers: list[Paper] = []  # in the order they were made
        self.paused: set[tuple[str, str]] = set()
        self.tick = 0
        self.step = 0

    # Looking ----------------------------------------------------------------------------------------------------------

    def find_key(self, key: str | None) -> Paper | None:
        """The job that has this key."""
        return next((paper for paper in self.papers if key is not None and paper.key == key), None)

    def get(self, key: UUID) -> Paper:
        """The job with this id."""
        return next(paper for paper in self.papers if paper.id == key)

    def holds(self, key: UUID, owner: str) -> bool:
        """Does this owner hold this job?"""
        return any(paper.id == key and paper.owner == owner for paper in self.papers)

    def has_settled(self, key: UUID, owner: str) -> bool:
        """Was this owner the last to let go of it?"""
        return any(paper.id == key and paper.settled_by == owner for paper in self.papers)

    def rests(self, kind: Kind) -> bool:
        """Is this queue, this type, or both paused?"""
        return any(queue in (kind.queue, ANY) and type_ in (kind.type, ANY) for queue, type_ in self.paused)

    def due_of(self, kind: Kind) -> list[Paper]:
        """What may be claimed of a kind, in the order it should be."""
        waiting = (paper for paper in self.papers if paper.status is Status.QUEUED and paper.kind == kind)
        due = [paper for paper in waiting if paper.due[0] <= self.tick]
        return [] if self.rests(kind) else sorted(due, key=self.place_of)

    def place_of(self, paper: Paper) -> tuple[int, int, int]:
        """Higher priority first, then what is due longest; after a random wait, and within a batch, nobody can tell."""
        return (-paper.priority, 0, 0) if paper.policy is BackoffPolicy.EXP else (-paper.priority, *paper.due)

    def first_of(self, kind: Kind, limit: int) -> list[Paper]:
        """The next so many of a kind, and those of which nobody can tell whether they come before the last of them."""
        due = self.due_of(kind)
        taken = due[:limit]
        return [*taken, *(paper for paper in due[limit:] if self.place_of(paper) == self.place_of(taken[-1]))]

    def expired(self) -> list[Paper]:
        """Whose holders are gone."""
        return [paper for paper in self.papers if paper.owner is not None and paper.lapses <= self.tick]

    def dead(self) -> list[Paper]:
        """The dead letters, the oldest first."""
        return [paper for paper in self.papers if paper.status is Status.DEAD_LETTER]

    # Moving -----------------------------------------------------------------------------------------------------------

    def in_ticks(self, ticks: int = 0) -> tuple[int, int]:
        """So far from now."""
        return (self.tick + ticks, self.step)

    def move(self, paper: Paper, *to: Status) -> None:
        """It goes there, one event for each."""
        paper.path += to
        paper.finished = self.tick if paper.status in TERMINAL else None

    def claim(self, papers: Iterable[Paper], owner: str, ticks: int) -> None:
        """They are held, and each has started once more."""
        for paper in papers:
            self.move(paper, Status.RUNNING)
            paper.owner, paper.lapses, paper.starts = owner, self.tick + ticks, paper.starts + 1

    def let_go(self, paper: Paper, *to: Status) -> None:
        """Its holder settles it; a wish to cancel turns every way back to the queue into an end."""
        paper.settled_by, paper.owner = paper.owner, None
        self.move(paper, *to)

    def done(self, paper: Paper) -> None:
        """Whoever asked to cancel was too late."""
        self.let_go(paper, Status.SUCCEEDED)

    def cancelled(self, paper: Paper) -> None:
        """It stopped."""
        self.let_go(paper, Status.CANCELED)

    def handed_back(self, paper: Paper) -> None:
        """Unblamed, and due as it was."""
        if paper.is_to_stop:
            return self.let_go(paper, Status.CANCELED)
        paper.starts -= 1
        return self.let_go(paper, Status.QUEUED)

    def later(self, paper: Paper, ticks: int) -> None:
        """Unblamed, and due later."""
        paper.snoozes += 1
        self.handed_back(paper)
        if paper.status is Status.QUEUED:
            paper.due = self.in_ticks(ticks)

    def failed(self, paper: Paper, *, give_up: bool = False) -> None:
        """To the queue again, or to the dead letters."""
        paper.settled_by = paper.owner
        self.fail(paper, give_up=give_up)

    def lapse(self, paper: Paper) -> None:
        """A crash: as a failure, but nobody settled it."""
        self.fail(paper, give_up=False)

    def fail(self, paper: Paper, *, give_up: bool) -> None:
        """Two moves, or one to the end that somebody asked for."""
        paper.owner = None
        if paper.is_to_stop:
            self.move(paper, Status.CANCELED)
        elif give_up or paper.starts >= paper.max_attempts:
            self.move(paper, Status.FAILED, Status.DEAD_LETTER)
        else:
            self.move(paper, Status.FAILED, Status.QUEUED)
            paper.due = self.in_ticks(0 if paper.policy is BackoffPolicy.NONE else 1)

    def cancel(self, paper: Paper, *, now: bool) -> Status | None:
        """At once when it waits or must, else when its holder hears of it."""
        if paper.status not in (Status.QUEUED, Status.RUNNING):
            return None
        was_to_stop, paper.is_to_stop = paper.is_to_stop, True
        if paper.status is Status.QUEUED or now:
            paper.owner = None
            self.move(paper, Status.CANCELED)
        elif not was_to_stop:
            self.move(paper, Status.RUNNING)
        return paper.status

    def redrive(self, papers: Sequence[Paper]) -> None:
        """As though they were new."""
        for paper in papers:
            self.move(paper, Status.QUEUED)
            paper.starts, paper.snoozes, paper.is_to_stop, paper.due = 0, 0, False, self.in_ticks()

    def retain(self) -> list[Paper]:
        """Those whose time is over leave."""
        over = [p for p in self.papers if p.finished is not None and p.finished + p.retain_ticks <= self.tick]
        self.papers = [paper for paper in self.papers if paper not in over]
        return over
