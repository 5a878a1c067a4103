"""What is needed of reading, and which of it was not met."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.ocr.score import Score

__all__ = ["NEEDS", "Need", "unmet"]


@dataclass(frozen=True)
class Need:
    """A part of some whole that must be reached, in percent."""

    what: str
    part: str  # of a score
    whole: str
    least: float

    def refusal(self, score: Score) -> str | None:
        """What is missing, in a sentence; None when it is met."""
        part, whole = getattr(score, self.part), getattr(score, self.whole)
        if 100 * part >= self.least * whole:
            return None
        return f"{part} of {whole} {self.what} = {100 * part / whole:.1f} %, and {self.least:g} % are needed"


def needs(least_right: float) -> tuple[Need, ...]:
    """What every way of reading must reach; how much has to be completely right differs."""
    return (
        Need("shifts completely right", "right", "shifts", least_right),
        Need("å ä ö kept", "kept", "marked", 99.0),
        Need("times", "times", "shifts", 100.0),
    )


NEEDS: Mapping[str, tuple[Need, ...]] = {
    "checked": needs(97.0),  # RapidOCR, and Tesseract beside it
    "alone": needs(95.0),  # RapidOCR without it
    "tesseract": needs(95.0),  # without RapidOCR
}


def unmet(ways: Mapping[str, Score]) -> list[str]:
    """Every need that was not met, with the way of reading that missed it. Where nothing was read nothing is shown."""
    if not any(score.shifts for score in ways.values()):
        return ["there was no shift to read"]
    return [
        f"{way}: {refusal}" for way, score in ways.items() for need in NEEDS[way] if (refusal := need.refusal(score))
    ]
