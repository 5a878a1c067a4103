"""Hypothesis strategies for days: few customers, locations and times, so that shifts collide, move and return."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

CUSTOMERS = ("Anna Svensson", "Anders Svensson", "Åsa Öberg", "Svensson Anna", "")
LABELS = ("Städning", "Fönsterputs", "Lunch", "Restid", "")
LOCATIONS = ("Billdal", "Mölndal", "Göteborg", "")
ADDRESSES = ("", "Storgatan 1, 412 58 Göteborg", "Göteborg, Storgatan 1", "Storgatan 10", "Lillgatan 3 B, Mölndal")
TIMES = ("00:00", "08:00", "10:00", "12:00", "14:30", "22:00", "23:50")


def payload(*several: Mapping[str, Any], date: str = "2026-02-10", **extra: Any) -> dict[str, Any]:
    """Return the payload of a day with these entries."""
    return {"schedule_date": date, "entries": list(several), **extra}


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """Generate one entry."""
    title = " • ".join(filter(None, (draw(st.sampled_from(CUSTOMERS)), draw(st.sampled_from(LABELS)))))
    entry = {"start": draw(st.sampled_from(TIMES)), "end": draw(st.sampled_from(TIMES)), "title": title or "Pass"}
    for name, choices in (("location", LOCATIONS), ("address", ADDRESSES)):
        if value := draw(st.sampled_from(choices)):
            entry[name] = value
    return entry


days = st.lists(entries(), max_size=6).map(lambda several: payload(*several))
histories = st.lists(days, min_size=1, max_size=6)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
wild_entries = st.fixed_dictionaries(
    {
        "start": st.sampled_from(TIMES),
        "end": st.sampled_from(TIMES),
        "title": texts.filter(lambda text: bool(text.strip())),
    },
    optional={"location": texts, "address": texts, "note": texts},
)
wild_days = st.lists(wild_entries, max_size=5).map(lambda several: payload(*several))
