"""Results of checks: the notes of a check are combined to a finding, with the worst verdict."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

MAX_NAMED = 3  # the worst sessions, tables or workers


class Verdict(StrEnum):
    """The verdict of a check, from good to bad."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True)
class Finding:
    """The result of a check: the verdict, what was found, and the command or setting that fixes it."""

    check: str
    verdict: Verdict
    found: str
    fix: str | None = None


@dataclass(frozen=True)
class Note:
    """One observation of a check."""

    verdict: Verdict
    found: str
    fix: str | None = None


def ok(found: str) -> Note:
    """Return a note that all is well."""
    return Note(Verdict.OK, found)


def warn(found: str, fix: str) -> Note:
    """Return a note on something that works, but not as it should."""
    return Note(Verdict.WARN, found, fix)


def bad(found: str, fix: str) -> Note:
    """Return a note on something that does not work, or breaks a guarantee."""
    return Note(Verdict.BAD, found, fix)


def summarize(name: str, notes: Sequence[Note]) -> Finding:
    """Combine notes to a finding with the worst verdict; ok notes are included only if all are ok."""
    verdict = worst_verdict(*(note.verdict for note in notes))
    relevant = [note for note in notes if (note.verdict is Verdict.OK) == (verdict is Verdict.OK)]
    fixes = dict.fromkeys(note.fix for note in relevant if note.fix)
    return Finding(name, verdict, "; ".join(note.found for note in relevant), "; ".join(fixes) or None)


def worst_verdict(*verdicts: Verdict) -> Verdict:
    """Return the worst verdict."""
    return max(verdicts, key=list(Verdict).index)


def worst_notes(notes: Sequence[Note]) -> list[Note]:
    """Return the worst few notes."""
    return sorted(notes, key=lambda note: list(Verdict).index(note.verdict), reverse=True)[:MAX_NAMED]


def grade(value: float, warn_above: float, bad_above: float) -> Verdict:
    """Return the verdict on a number that should be small."""
    return Verdict.BAD if value > bad_above else Verdict.WARN if value > warn_above else Verdict.OK
