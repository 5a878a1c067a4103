"""Text on a page that names nothing of a shift: icons, durations, states, headings, and the bar at the foot."""

import re

from duly.apps.ingest.ocr.spelling import bare

__all__ = ["DURATION", "ICON", "is_chip", "is_heading", "is_navigation", "is_state"]

NAVIGATION = frozenset(
    {
        "schema", "kalender", "chatt", "chat", "profil", "profile", "schedule", "calendar", "hem", "home", "mer",
        "more", "meny", "menu", "installningar", "settings", "meddelanden", "messages", "konto", "account", "notiser",
        "start", "oversikt", "overview", "tid", "time", "uppgifter", "tasks", "kunder", "dag", "vecka", "manad",
    }
)  # fmt: skip
HEADINGS = frozenset(
    {
        "formiddag", "eftermiddag", "kvall", "natt", "morgon", "morning", "afternoon", "evening", "night", "idag",
        "imorgon",
    }
)  # fmt: skip
CHIPS = frozenset(
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
ICON = re.compile(r"^(?:[^\w(\"'+]+\s*)+")


def is_chip(text: str) -> bool:
    """Is it an icon, a duration or a state, and not a name?"""
    return not any(map(str.isalpha, text)) or bool(DURATION.fullmatch(text.strip())) or is_state(text)


def is_state(text: str) -> bool:
    """Is it the name of a state, as a chip has it?"""
    return bare(text) in CHIPS


def is_heading(text: str) -> bool:
    """Is it the name of a part of the day, above its shifts?"""
    return bare(text) in HEADINGS


def is_navigation(text: str) -> bool:
    """Is it a name in the bar at the foot?"""
    return bare(text) in NAVIGATION
