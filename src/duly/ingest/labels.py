"""The words that say what kind of work a shift is, and how they are recognised."""

from difflib import SequenceMatcher
from enum import StrEnum
from functools import lru_cache

from duly.ingest.spelling import folded

__all__ = ["ENGLISH", "ShiftType", "find_label"]

ALIKE = 0.82  # from here on two words of five letters or more are one, misread
SHORTEST_MISREAD = 5


class ShiftType(StrEnum):
    """What kind of work it is; the first of two that are seen wins."""

    WORK = "WORK"
    TRAVEL = "TRAVEL"
    TRAINING = "TRAINING"
    MEETING = "MEETING"
    ADMIN = "ADMIN"
    BREAK = "BREAK"
    LEAVE = "LEAVE"
    UNAVAILABLE = "UNAVAILABLE"
    UNKNOWN = "UNKNOWN"


ENGLISH = {
    ShiftType.WORK: "work",
    ShiftType.TRAVEL: "travel",
    ShiftType.TRAINING: "training",
    ShiftType.MEETING: "a meeting",
    ShiftType.ADMIN: "administration",
    ShiftType.BREAK: "a break",
    ShiftType.LEAVE: "leave",
    ShiftType.UNAVAILABLE: "unavailable",
    ShiftType.UNKNOWN: "something else",
}

LABELS = {
    ShiftType.WORK: (
        "Städning", "Hemstädning", "Kontorsstädning", "Flyttstädning", "Storstädning", "Trappstädning", "Byggstädning",
        "Fönsterputs", "Hemservice", "Skola", "Kontor", "Tvätt", "Strykning", "Cleaning", "Window Cleaning",
        "Deep Cleaning", "School", "Office",
    ),
    ShiftType.TRAVEL: ("Restid", "Resa", "Travel"),
    ShiftType.TRAINING: ("Utbildning", "Introduktion", "Training"),
    ShiftType.MEETING: ("Personalmöte", "Möte", "Meeting"),
    ShiftType.ADMIN: ("Nyckelhantering", "Administration", "Admin"),
    ShiftType.BREAK: ("Lunch", "Rast", "Paus", "Break"),
    ShiftType.LEAVE: ("Vård Av Barn", "Tjänstledig", "Sjukdom", "Sjuk", "Semester", "Föräldraledig", "Leave", "Sick"),
    ShiftType.UNAVAILABLE: ("Ej Disponibel", "Avbokade", "Avbokad", "Unavailable"),
}  # fmt: skip


def _known() -> dict[tuple[str, ...], tuple[str, ShiftType]]:
    """Every label by its folded words."""
    return {
        tuple(folded(word) for word in label.split()): (label, kind)
        for kind, labels in LABELS.items()
        for label in labels
    }


KNOWN = _known()
LONGEST = max(map(len, KNOWN))
SINGLE = {words[0]: found for words, found in KNOWN.items() if len(words) == 1}


def find_label(words: tuple[str, ...]) -> tuple[str, ShiftType, int] | None:
    """The label that these words begin with, its type, and how many words it takes; None when they begin otherwise."""
    parts = tuple(folded(word) for word in words[:LONGEST])
    for length in range(len(parts), 0, -1):
        if found := KNOWN.get(parts[:length]):
            return (*found, length)
    if parts and (found := misread(parts[0])):
        return (*found, 1)
    return None


@lru_cache(maxsize=4096)
def misread(word: str) -> tuple[str, ShiftType] | None:
    """The label of one word that this most looks like, if any is like it."""
    if len(word) < SHORTEST_MISREAD:
        return None
    best, found = ALIKE, None
    for other, label in SINGLE.items():
        if len(other) < SHORTEST_MISREAD or abs(len(other) - len(word)) > 2:
            continue
        alike = SequenceMatcher(None, word, other, autojunk=False).ratio()
        if alike >= best and (found is None or alike > best):
            best, found = alike, label
    return found
