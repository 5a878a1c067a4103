"""The changes between two states of a day; replaying them rebuilds the day."""

import re
from itertools import pairwise
from typing import Any

from hypothesis import given, settings

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.diff import ShiftChange, diff, replay
from duly.apps.ingest.notifications import build_events
from duly.apps.ingest.shift import Shift
from tests.fast.apps.ingest.test_diff import SESSION
from tests.support.ingest.strategies import histories


@settings(max_examples=300)
@given(histories)
def test_events_replayed_over_an_empty_day_rebuild_every_state(history: list[dict[str, Any]]) -> None:
    events: list[ShiftChange] = []
    known: tuple[Shift, ...] = ()
    for day in [*history, *history]:  # and back again, and there again
        seen = canonicalize(day).shifts
        events += diff(known, seen)
        known = seen
        values = [(each.old.document if each.old else None, each.new.document if each.new else None) for each in events]
        assert replay(values) == sorted(known, key=lambda shift: shift.sort_key)


def visible_lines(day: dict[str, Any]) -> set[tuple[Any, ...]]:
    """The lines of a day as a person sees them: times, the words of the title, and those of the place in any order."""
    return {
        (
            each["start"],
            each["end"],
            each["title"],
            frozenset(re.findall(r"\w+", each.get("address", "") + f" {each.get('location', '')}")),
        )
        for each in day["entries"]
    }


@settings(max_examples=300)
@given(histories)
def test_a_day_has_events_exactly_when_it_looks_different(history: list[dict[str, Any]]) -> None:
    for before, after in pairwise(history):
        is_changed = visible_lines(before) != visible_lines(after)
        assert bool(diff(canonicalize(before).shifts, canonicalize(after).shifts)) == is_changed


@given(histories)
def test_every_change_has_exactly_one_event(history: list[dict[str, Any]]) -> None:
    for before, after in pairwise(history):
        old, new = canonicalize(before).shifts, canonicalize(after).shifts
        changes = diff(old, new)
        assert sorted(each.old.value_hash for each in changes if each.old) == sorted(
            shift.value_hash for shift in old if shift not in new
        )
        assert sorted(each.new.value_hash for each in changes if each.new) == sorted(
            shift.value_hash for shift in new if shift not in old
        )
        ids = [event.id for event in build_events(SESSION, changes)]
        assert len(set(ids)) == len(ids)
