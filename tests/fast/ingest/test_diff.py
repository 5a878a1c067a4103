# ruff: noqa: RUF001 (times are written with a dash)
"""What changed between two states of a day; and whatever changed, replaying it rebuilds the day."""

from typing import Any
from uuid import UUID

import pytest

from duly.ingest.canonical import observe
from duly.ingest.diff import EventType, diff
from duly.ingest.notices import NO_VALUE_HASH, NoticeType, events_of, notices_of, sentence_of
from duly.ingest.shift import Shift
from tests.support.ingest.strategies import payload

DAY = observe(payload()).schedule_date
SESSION = UUID(int=7)
BASE = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}


def shifts(*entries: dict[str, Any]) -> tuple[Shift, ...]:
    """The shifts of a day with these entries."""
    return observe(payload(*entries)).shifts


def types(old: tuple[Shift, ...], new: tuple[Shift, ...]) -> list[str]:
    """What kinds of events lead from one to the other."""
    return [change.type.value for change in diff(old, new)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (BASE, []),
        ({**BASE, "start": "10:15"}, ["shift_time_changed"]),
        ({**BASE, "end": "15:00"}, ["shift_time_changed"]),
        ({**BASE, "start": "08:00", "end": "09:00"}, ["shift_time_changed"]),
        ({**BASE, "address": "Storgatan 2, 412 58 Göteborg"}, ["shift_relocated"]),
        ({**BASE, "title": "Bo Ek • Städning"}, ["shift_retitled"]),
        ({**BASE, "title": "Svensson Anna • Städning"}, ["shift_retitled"]),
        ({**BASE, "title": "Anna Svensson • Personalmöte"}, ["shift_reclassified"]),
        ({**BASE, "title": "Anna Svensson • Fönsterputs"}, ["shift_reclassified"]),
        ({**BASE, "address": "Storgatan 1, 412 59 Göteborg"}, ["shift_relocated"]),
        ({**BASE, "title": "Anna Svensson • Städning 4h"}, []),
        ({**BASE, "start": "11:00", "address": "Lillgatan 9, Mölndal"}, ["shift_removed", "shift_added"]),
        ({**BASE, "start": "11:00", "title": "Bo Ek • Städning"}, ["shift_removed", "shift_added"]),
    ],
)
def test_one_shift_changes(entry: dict[str, Any], expected: list[str]) -> None:
    assert types(shifts(BASE), shifts(entry)) == expected


def test_the_first_difference_names_an_event_and_its_new_value_carries_all() -> None:
    entry = {**BASE, "start": "11:00", "title": "Svensson Anna • Fönsterputs"}
    (change,) = diff(shifts(BASE), shifts(entry))
    assert change.type is EventType.TIME_CHANGED
    assert (change.new,) == shifts(entry)


def test_a_day_that_is_seen_first_is_all_new() -> None:
    assert types((), shifts(BASE, {**BASE, "start": "15:00", "end": "16:00"})) == ["shift_added"] * 2


def test_a_day_that_is_empty_now_has_lost_everything() -> None:
    assert types(shifts(BASE), ()) == ["shift_removed"]


def test_two_customers_at_one_address_and_time_are_two_shifts() -> None:
    other = {**BASE, "title": "Bo Ek • Städning"}
    assert len(shifts(BASE, other)) == 2
    assert types(shifts(BASE), shifts(BASE, other)) == ["shift_added"]
    assert types(shifts(BASE, other), shifts(other)) == ["shift_removed"]


def test_two_visits_to_one_customer_are_paired_by_the_nearest_time() -> None:
    late = {**BASE, "start": "18:00", "end": "20:00"}
    (change,) = diff(shifts(BASE, late), shifts(BASE, {**late, "start": "18:30"}))
    assert (change.type, change.old, change.new) == (
        EventType.TIME_CHANGED,
        shifts(late)[0],
        shifts({**late, "start": "18:30"})[0],
    )


def test_nights_are_paired_around_midnight() -> None:
    night, noon = {**BASE, "start": "23:50", "end": "06:00"}, {**BASE, "start": "12:00", "end": "18:00"}
    later = {**BASE, "start": "00:10", "end": "06:00"}
    changed = {(change.old, change.new) for change in diff(shifts(night, noon), shifts(later, noon))}
    assert changed == {(shifts(night)[0], shifts(later)[0])}


def test_shifts_without_an_address_share_a_place_and_none_is_lost() -> None:
    lunch = {"start": "12:00", "end": "13:00", "title": "Lunch"}
    meeting = {"start": "12:00", "end": "13:00", "title": "Personalmöte"}
    assert types(shifts(lunch), shifts(meeting)) == ["shift_retitled"]
    assert types(shifts(lunch), shifts(lunch, meeting)) == ["shift_added"]


def test_the_order_of_shifts_makes_no_other_events() -> None:
    some = shifts(BASE, {**BASE, "start": "15:00", "end": "16:00"}, {**BASE, "title": "Bo Ek • Städning"})
    more = shifts({**BASE, "start": "10:30"}, {**BASE, "title": "Bo Ek • Fönsterputs"})
    assert diff(some, more) == diff(tuple(reversed(some)), tuple(reversed(more)))


# What is told ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (None, BASE, "New shift on 2026-02-10: 10:00–14:00, Göteborg."),
        (BASE, None, "Shift removed on 2026-02-10: 10:00–14:00, Göteborg."),
        (BASE, {**BASE, "start": "11:00"}, "Shift on 2026-02-10, Göteborg: 10:00 → 11:00."),
        (BASE, {**BASE, "end": "15:00"}, "Shift on 2026-02-10, Göteborg: ends 14:00 → 15:00."),
        (
            BASE,
            {**BASE, "start": "11:00", "end": "15:00"},
            "Shift on 2026-02-10, Göteborg: 10:00–14:00 → 11:00–15:00.",
        ),
        (BASE, {**BASE, "address": "Lillgatan 2, Mölndal"}, "The 10:00 shift on 2026-02-10 is now in Mölndal."),
        (BASE, {**BASE, "title": "Bo Ek • Städning"}, "The 10:00 shift on 2026-02-10 is now for Bo Ek."),
        (BASE, {**BASE, "title": "Anna Svensson • Fönsterputs"}, "The 10:00 shift on 2026-02-10 is now Fönsterputs."),
        (BASE, {**BASE, "title": "Anna Svensson"}, "The 10:00 shift on 2026-02-10 is now work."),
        (None, {"start": "12:00", "end": "13:00", "title": "Lunch"}, "New shift on 2026-02-10: 12:00–13:00."),
    ],
)
def test_a_change_is_a_sentence(old: dict[str, Any] | None, new: dict[str, Any] | None, sentence: str) -> None:
    (change,) = diff(shifts(old) if old else (), shifts(new) if new else ())
    assert sentence_of(DAY, change) == sentence


def test_few_changes_are_told_one_by_one_in_the_order_of_the_day() -> None:
    changes = diff((), shifts({**BASE, "start": "15:00", "end": "16:00"}, BASE))
    events = events_of(SESSION, changes)
    told = notices_of(42, DAY, SESSION, list(reversed(events)), threshold=3)
    assert [each.message[:32] for each in told] == [
        "New shift on 2026-02-10: 10:00–1",
        "New shift on 2026-02-10: 15:00–1",
    ]
    assert all(each.type is NoticeType.EVENT and len(each.event_ids) == 1 for each in told)
    assert told == notices_of(42, DAY, SESSION, events, threshold=3)


def test_many_changes_are_told_in_one_message() -> None:
    changes = diff((), shifts(*({**BASE, "start": f"{hour}:00", "end": f"{hour}:30"} for hour in (8, 9, 10))))
    events = events_of(SESSION, changes)
    (summary,) = notices_of(42, DAY, SESSION, events, threshold=3)
    assert summary.type is NoticeType.SUMMARY
    assert summary.message == "3 changes on 2026-02-10."
    assert set(summary.event_ids) == {event.id for event in events}
    assert summary.id != notices_of(43, DAY, SESSION, events, threshold=3)[0].id
    assert summary.id != notices_of(42, DAY, UUID(int=8), events, threshold=3)[0].id


def test_nothing_changed_is_told_by_silence() -> None:
    assert notices_of(42, DAY, SESSION, [], threshold=1) == []


def test_what_is_missing_has_the_hash_of_null() -> None:
    (event,) = events_of(SESSION, diff((), shifts(BASE)))
    assert event.old_value_hash == NO_VALUE_HASH == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    assert event.new_value_hash == shifts(BASE)[0].value_hash
