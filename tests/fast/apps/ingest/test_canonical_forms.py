"""The canonical form of a few days by canonicalizer version: a change of a form must increment CANONICALIZER."""

import json
from typing import Any

from duly.apps.ingest.canonical import CANONICALIZER, canonicalize
from tests.support.golden import GOLDEN, check_golden

FORMS = GOLDEN / "canonical"
DAYS: tuple[dict[str, Any], ...] = (
    {"schedule_date": "2026-02-10", "entries": []},
    {
        "schedule_date": "2026-02-10",
        "entries": [{"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}],
    },
    {
        "schedule_date": "2026-02-11",
        "weather": " light   rain ",
        "entries": [
            {"start": "22.30", "end": "6 00", "title": "NATT • Utbildning 4h", "location": "GÖTEBORG"},
            {
                "start": "9:5",
                "end": "11:00",
                "title": "anna  svensson AB • städning 2h 30m",
                "address": "storgatan 12 b, 412 58 göteborg",
                "note": {"key": " under the  mat "},
            },
            {"start": "12:00", "end": "12:30", "title": "Lunch"},
        ],
    },
)


def test_canonical_forms_match_the_golden_file() -> None:
    """Days that are stored were given these forms: with other forms under the same number they would seem changed."""
    forms = [
        {"payload": seen.payload, "hash": seen.payload_hash, "shifts": [shift.document for shift in seen.shifts]}
        for seen in map(canonicalize, DAYS)
    ]
    text = json.dumps(forms, indent=2, ensure_ascii=False, sort_keys=True)
    check_golden(FORMS / f"{CANONICALIZER}.json", text + "\n")
