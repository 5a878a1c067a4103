"""What is found: a check notices things, and a finding is made of them, with the verdict of the worst."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["MAX_NAMED", "Finding", "Note", "Verdict", "bad", "conclude", "foremost", "graded", "ok", "warn", "worst"]

MAX_NAMED = 3  # sessions, tables, workers: the worst of them


class Verdict(StrEnum):
    """How a check came out, from well to ill."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's: which check, how it came out, the figure, and the command or setting that mends it."""

    check: str
    verdict: Verdict
    found: str
    fix: str | None = None


@dataclass(frozen=True)
class Note:
    """One thing a check noticed; a finding is made of them."""

    verdict: Verdict
    found: str
    fix: str | None = None


def ok(found: str) -> Note:
    """All is well, with the figure that says so."""
    return Note(Verdict.OK, found)


def warn(found: str, fix: str) -> Note:
    """It works, but not as it should."""
    return Note(Verdict.WARN, found, fix)


def bad(found: str, fix: str) -> Note:
    """It does not work, or what was promised does not hold."""
    return Note(Verdict.BAD, found, fix)


def conclude(name: str, notes: Sequence[Note]) -> Finding:
    """The worst of the notes is the verdict; what is well is told only when all is."""
    verdict = worst(*(note.verdict for note in notes))
    told = [note for note in notes if (note.verdict is Verdict.OK) == (verdict is Verdict.OK)]
    fixes = dict.fromkeys(note.fix for note in told if note.fix)
    return Finding(name, verdict, "; ".join(note.found for note in told), "; ".join(fixes) or None)


def worst(*verdicts: Verdict) -> Verdict:
    """The one nearest to ill."""
    return max(verdicts, key=list(Verdict).index)


def foremost(notes: Sequence[Note]) -> list[Note]:
    """The few worst of many."""
    return sorted(notes, key=lambda note: list(Verdict).index(note.verdict), reverse=True)[:MAX_NAMED]


def graded(figure: float, warn_above: float, bad_above: float) -> Verdict:
    """The verdict on a figure that should be small."""
    return Verdict.BAD if figure > bad_above else Verdict.WARN if figure > warn_above else Verdict.OK
