"""The labels that name the type of a shift, and how they are recognized."""

from enum import StrEnum
from functools import lru_cache

from duly.apps.ingest.spelling import folded

MIN_MISREAD_LENGTH = 8  # letters of a label that is recognized with one misread letter


class ShiftType(StrEnum):
    """The type of a shift."""

    WORK = "WORK"
    TRAVEL = "TRAVEL"
    TRAINING = "TRAINING"
    MEETING = "MEETING"
    ADMIN = "ADMIN"
    BREAK = "BREAK"
    LEAVE = "LEAVE"
    UNAVAILABLE = "UNAVAILABLE"
    UNKNOWN = "UNKNOWN"


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
    ShiftType.UNAVAILABLE: ("Ej Disponibel", "Unavailable"),
}  # fmt: skip

# Words that are also part of names (Office Depot, Café Paus): they are labels only alone or before a preposition.
WEAK_LABELS = frozenset((
    "Skola", "Kontor", "School", "Office", "Hemservice", "Tvätt", "Resa", "Travel", "Training", "Meeting",
    "Administration", "Admin", "Lunch", "Rast", "Paus", "Break", "Leave",
))  # fmt: skip
CUSTOMER_FOLLOWS = frozenset(map(folded, ("hos", "åt", "for", "at")))  # Städning hos Anna
PREPOSITIONS = CUSTOMER_FOLLOWS | frozenset(
    map(folded, ("med", "till", "från", "för", "på", "i", "av", "vid", "with", "to", "in", "on", "of", "from"))
)
CANCELLED = frozenset(map(folded, (
    "Avbokad", "Avbokat", "Avbokade", "Inställd", "Inställt", "Inställda", "Annullerad", "Annullerat", "Cancelled",
    "Canceled", "已取消",
)))  # fmt: skip


def _index_labels() -> dict[tuple[str, ...], tuple[str, ShiftType]]:
    """Return label and type by the folded words of the label."""
    return {
        tuple(folded(word) for word in label.split()): (label, shift_type)
        for shift_type, labels in LABELS.items()
        for label in labels
    }


KNOWN = _index_labels()
MAX_LENGTH = max(map(len, KNOWN))
SINGLE = {words[0]: found for words, found in KNOWN.items() if len(words) == 1}


def find_label(words: tuple[str, ...]) -> tuple[str, ShiftType, int] | None:
    """Return the label at the start of these words, its type, and its number of words; None when there is none."""
    parts = tuple(folded(word) for word in words[:MAX_LENGTH])
    for length in range(len(parts), 0, -1):
        if found := KNOWN.get(parts[:length]):
            return (*found, length)
    if parts and (label := match_label(words[0])):
        return (*SINGLE[folded(label)], 1)
    return None


@lru_cache(maxsize=4096)
def match_label(word: str) -> str | None:
    """Return the one-word label that this word reads as, despite similar letters or, if long, one wrong letter."""
    found = folded(word)
    if found in SINGLE:
        return SINGLE[found][0]
    for label in SINGLE if len(found) >= MIN_MISREAD_LENGTH else ():
        if len(label) == len(found) and sum(one != other for one, other in zip(label, found, strict=True)) == 1:
            return SINGLE[label][0]
    return None
