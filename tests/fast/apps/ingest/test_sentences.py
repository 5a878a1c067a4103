"""Notifications checked against the two days that they are about, by code that shares nothing with what writes them."""

from dataclasses import replace
from datetime import date
from random import Random
from typing import Any
from uuid import UUID

import pytest

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.day import Day, DayChange, apply_capture
from tests.support.ingest.seen_days import Seen, change_day, payload_from_lines, random_day
from tests.support.ingest.sentence_checker import PHRASES, find_faults

CHANGES = 200
ANNA = Seen("10:00", "14:00", "Anna Svensson", "Städning", "bullet", street="Storgatan", number="1", city="Göteborg")


def step_between(before: list[Seen], after: list[Seen], chance: Random | None = None) -> DayChange:
    """Return the change from the first day to the second; with `chance` the second is in another spelling."""
    known, seen = canonicalize(payload_from_lines(before)), canonicalize(payload_from_lines(after, chance))
    day = Day(42, date(2026, 2, 10), 1, known.payload_hash, known.shifts)
    return apply_capture(day, UUID(int=7), seen, summary_threshold=1000)


def messages(step: DayChange, language: str = "en") -> list[str]:
    """The sentences of a step."""
    return [notification.text(language) for notification in step.notifications]


def test_200_changes_are_described_completely_in_every_language() -> None:
    chance, event_count = Random(23), 0  # noqa: S311 (a day, not a secret)
    while event_count < CHANGES:
        before = random_day(chance)
        after = change_day(chance, before)
        step = step_between(before, after, chance)
        for language in PHRASES:
            assert find_faults(before, after, messages(step, language), language) == []
        event_count += len(step.events)


def test_differently_read_day_gives_no_event() -> None:
    chance = Random(9)  # noqa: S311 (a day, not a secret)
    for _ in range(100):
        day = random_day(chance)
        assert step_between(day, day, chance).events == []


@pytest.mark.parametrize(
    ("after", "untrue"),
    [
        ({"who": "Bo Berg"}, "The 10:00 shift on 2026-02-10 is now for Bo Ek."),
        ({"who": "Bo Berg"}, "The 10:00 shift on 2026-02-10 is no longer for Anna Svensson."),
        ({"who": "Bo Berg"}, "The 10:00 shift on 2026-02-10 is now for Bo Berg; it is cancelled."),
        ({"who": "Bo Berg", "mark": "avbokad"}, "The 10:00 shift on 2026-02-10 is now for Bo Berg."),
        ({"what": "Sjuk", "end": "15:00"}, "The 10:00 shift on 2026-02-10 now ends at 15:00."),
        ({"what": "Sjuk"}, "The 10:00 shift on 2026-02-10 is now “Möte”."),
        ({"number": "2"}, "The 10:00 shift on 2026-02-10 now has the address Göteborg."),
        ({"number": "2"}, "The 10:00 shift on 2026-02-10 is now in Göteborg."),
        ({"number": "2"}, "The 11:00 shift on 2026-02-10 now has the address Storgatan 2, Göteborg."),
        ({"end": "15:00"}, "New shift on 2026-02-10: 10:00\N{EN DASH}15:00, Anna Svensson • Städning, Göteborg."),
    ],
)
def test_sentence_checker_finds_untrue_and_missing_sentences(after: dict[str, Any], untrue: str) -> None:
    line = replace(ANNA, **after)
    assert find_faults([ANNA], [line], messages(step_between([ANNA], [line])), "en") == []
    assert find_faults([ANNA], [line], [untrue], "en") != []
    assert find_faults([ANNA], [line], [], "en") != []


def test_sentence_checker_finds_ambiguous_sentences() -> None:
    bo = replace(ANNA, who="Bo Berg")
    later = replace(bo, end="15:00")
    assert find_faults([ANNA, bo], [ANNA, later], ["The 10:00 shift on 2026-02-10 now ends at 15:00."], "en") != []
    assert find_faults([ANNA, bo], [ANNA, later], messages(step_between([ANNA, bo], [ANNA, later])), "en") == []
