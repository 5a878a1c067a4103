"""Recognise text of the user interface that is no field of a shift: icons, durations, status labels, headings, the
navigation bar.
"""

import re

from duly.apps.ingest.ocr.letters import fold

NAVIGATION_LABELS = frozenset(
    {
        "schema", "kalender", "chatt", "chat", "profil", "profile", "schedule", "calendar", "hem", "home", "mer",
        "more", "meny", "menu", "installningar", "settings", "meddelanden", "messages", "konto", "account", "notiser",
        "start", "oversikt", "overview", "tid", "time", "uppgifter", "tasks", "kunder", "dag", "vecka", "manad",
    }
)  # fmt: skip
DAY_SECTIONS = frozenset(
    {
        "formiddag", "eftermiddag", "kvall", "natt", "morgon", "morning", "afternoon", "evening", "night", "idag",
        "imorgon",
    }
)  # fmt: skip
STATUS_LABELS = frozenset(
    {
        "bekraftad", "confirmed", "preliminar", "pagar", "pagaende", "ongoing", "klar", "done", "paborjad", "started",
        "ny", "new", "andrad", "changed", "nasta", "next", "obligatorisk", "planned", "planerad", "planerat", "geplant",
        "bestatigt", "vahvistettu", "suunniteltu", "godkand", "approved", "booked", "bokad", "gebucht", "varattu",
        "uppdaterad", "updated", "geandert", "muutettu", "neu", "uusi", "offen", "open", "oppen", "fertig", "valmis",
    }
)  # fmt: skip
DURATION = re.compile(
    r"(?:(?:totalt?|summa):?\s*)?\(?\s*(?:\d{1,2}\s?(?:h|tim|timmar|hours?|std|stunden?|tuntia?|t)\.?(?:\s?\d{1,2}\s?(?:m|min)\.?)?|\d{1,3}\s?min\.?"
    r"|\d{1,2}[.,:]\d{1,2}\s?(?:h|tim|timmar|hours?|std|stunden?|tuntia?)\.?)\s*\)?",
    re.IGNORECASE,
)
LEADING_ICON = re.compile(r"^(?:[^\w(\"'+]+\s*)+")  # read as symbols, not as letters


def is_ui_text(text: str) -> bool:
    """Return whether a text is an icon, a duration or a status label, and no field of a shift."""
    return not any(map(str.isalpha, text)) or bool(DURATION.fullmatch(text.strip())) or is_status_label(text)


def is_status_label(text: str) -> bool:
    """Return whether a text is the status of a shift, as a chip shows it."""
    return fold(text) in STATUS_LABELS


def is_day_section_heading(text: str) -> bool:
    """Return whether a text names a section of the day, as a heading above its shifts does."""
    return fold(text) in DAY_SECTIONS


def is_navigation_label(text: str) -> bool:
    """Return whether a text is a label of the navigation bar at the bottom."""
    return fold(text) in NAVIGATION_LABELS
