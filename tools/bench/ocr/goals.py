"""Goals of OCR accuracy, and which of them were not met."""

from collections.abc import Mapping
from dataclasses import dataclass

from tools.bench.ocr.score import Score


@dataclass(frozen=True)
class Goal:
    """A share of a total that must be reached, in percent."""

    name: str
    part: str  # a field of `Score`
    total: str  # another field
    min_percent: float

    def describe_failure(self, score: Score) -> str | None:
        """Describe by how much the goal is missed; None if it is met."""
        part, total = getattr(score, self.part), getattr(score, self.total)
        if 100 * part >= self.min_percent * total:
            return None
        return f"{part} of {total} {self.name} = {100 * part / total:.1f} %, and {self.min_percent:g} % are needed"


def goals(min_right_percent: float) -> tuple[Goal, ...]:
    """Return the goals of a way of reading, which differ in how many shifts must be completely right."""
    return (
        Goal("shifts completely right", "right", "shifts", min_right_percent),
        Goal("å ä ö kept", "kept", "marked", 99.0),
        Goal("times", "times", "shifts", 100.0),
    )


GOALS: Mapping[str, tuple[Goal, ...]] = {
    "checked": goals(97.0),  # RapidOCR, and Tesseract beside it
    "alone": goals(95.0),  # RapidOCR without it
    "tesseract": goals(95.0),  # without RapidOCR
}


def find_failed_goals(ways: Mapping[str, Score]) -> list[str]:
    """Return every goal that was not met, with its way of reading; without any shift no goal is met."""
    if not any(score.shifts for score in ways.values()):
        return ["there was no shift to read"]
    return [
        f"{way}: {failure}"
        for way, score in ways.items()
        for goal in GOALS[way]
        if (failure := goal.describe_failure(score))
    ]
