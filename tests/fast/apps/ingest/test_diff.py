# ruff: noqa: RUF001 (times are written with a dash, and Chinese has its own commas)
"""The changes between two states of a day; replaying them rebuilds the day."""

from typing import Any
from uuid import UUID

import pytest

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.diff import EventType, ShiftChange, diff
from duly.apps.ingest.messages import MESSAGES
from duly.apps.ingest.notifications import (
    NO_VALUE_HASH,
    NotificationType,
    build_events,
    build_notifications,
    format_change,
)
from duly.apps.ingest.shift import Shift
from tests.support.ingest.strategies import payload

DAY = canonicalize(payload()).schedule_date
SESSION = UUID(int=7)
BASE = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, 412 58 Göteborg",
}
STORGATAN = BASE["address"]
TEN = "The 10:00 shift on 2026-02-10"
SICK = {"start": "12:00", "end": "13:00", "title": "Sjuk"}


def shifts(*entries: dict[str, Any]) -> tuple[Shift, ...]:
    """The shifts of a day with these entries."""
    return canonicalize(payload(*entries)).shifts


def types(old: tuple[Shift, ...], new: tuple[Shift, ...]) -> list[str]:
    """Return the types of the events from one state to the other."""
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
def test_each_change_of_a_shift_has_its_event_type(entry: dict[str, Any], expected: list[str]) -> None:
    assert types(shifts(BASE), shifts(entry)) == expected


def test_event_type_is_the_first_difference_and_new_value_is_complete() -> None:
    entry = {**BASE, "start": "11:00", "title": "Svensson Anna • Fönsterputs"}
    (change,) = diff(shifts(BASE), shifts(entry))
    assert change.type is EventType.TIME_CHANGED
    assert (change.new,) == shifts(entry)


def test_first_capture_of_a_day_adds_every_shift() -> None:
    assert types((), shifts(BASE, {**BASE, "start": "15:00", "end": "16:00"})) == ["shift_added"] * 2


def test_empty_capture_removes_every_shift() -> None:
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


def test_night_shifts_are_paired_around_midnight() -> None:
    night, noon = {**BASE, "start": "23:50", "end": "06:00"}, {**BASE, "start": "12:00", "end": "18:00"}
    later = {**BASE, "start": "00:10", "end": "06:00"}
    changed = {(change.old, change.new) for change in diff(shifts(night, noon), shifts(later, noon))}
    assert changed == {(shifts(night)[0], shifts(later)[0])}


def test_shifts_without_an_address_are_all_kept() -> None:
    lunch = {"start": "12:00", "end": "13:00", "title": "Lunch"}
    meeting = {"start": "12:00", "end": "13:00", "title": "Personalmöte"}
    assert types(shifts(lunch), shifts(meeting)) == ["shift_retitled"]
    assert types(shifts(lunch), shifts(lunch, meeting)) == ["shift_added"]


def test_events_do_not_depend_on_the_order_of_shifts() -> None:
    some = shifts(BASE, {**BASE, "start": "15:00", "end": "16:00"}, {**BASE, "title": "Bo Ek • Städning"})
    more = shifts({**BASE, "start": "10:30"}, {**BASE, "title": "Bo Ek • Fönsterputs"})
    assert diff(some, more) == diff(tuple(reversed(some)), tuple(reversed(more)))


# The sentences --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (None, BASE, f"New shift on 2026-02-10: 10:00–14:00, Anna Svensson • Städning, {STORGATAN}."),
        (BASE, None, f"Shift removed on 2026-02-10: 10:00–14:00, Anna Svensson • Städning, {STORGATAN}."),
        (None, SICK, "New shift on 2026-02-10: 12:00–13:00, Sjuk."),
        (BASE, {**BASE, "start": "11:00"}, f"{TEN} now starts at 11:00."),
        (BASE, {**BASE, "end": "15:00"}, f"{TEN} now ends at 15:00."),
        (BASE, {**BASE, "start": "11:00", "end": "15:00"}, f"{TEN} is now 11:00–15:00."),
        (BASE, {**BASE, "address": "Lillgatan 2, Mölndal"}, f"{TEN} now has the address Lillgatan 2, Mölndal."),
        (BASE, {**BASE, "address": ""}, f"{TEN} no longer has the address {STORGATAN}."),
        (BASE, {**BASE, "title": "Bo Ek • Städning"}, f"{TEN} is now for Bo Ek."),
        (BASE, {**BASE, "title": "Städning"}, f"{TEN} is no longer for Anna Svensson."),
        (BASE, {**BASE, "title": "Anna Svensson • Fönsterputs"}, f"{TEN} is now “Fönsterputs”."),
        (BASE, {**BASE, "title": "Anna Svensson • Städning kök"}, f"{TEN} is now “Städning Kök”."),
        (BASE, {**BASE, "title": "Anna Svensson"}, f"{TEN} is now “Anna Svensson”."),
        (BASE, {**BASE, "title": "Anna Svensson • Avbokad"}, f"{TEN} is cancelled."),
        (BASE, {**BASE, "title": "Anna Svensson • Städning avbokad"}, f"{TEN} is cancelled."),
        (
            {**BASE, "title": "Anna Svensson • Avbokad"},
            BASE,
            f"{TEN} is no longer cancelled; it is now “Städning”.",
        ),
        (
            {**BASE, "title": "Anna Svensson • Avbokad städning"},
            {**BASE, "title": "Anna Svensson • Inställd städning"},
            f"{TEN} is now “Anna Svensson • Inställd Städning”.",
        ),
        (
            {**BASE, "title": "Anna Svensson • Avbokad städning"},
            {**BASE, "title": "Anna Svensson • Avbokad"},
            f"{TEN} is now “Anna Svensson • Avbokad”.",
        ),
        (
            BASE,
            {**BASE, "title": "Bo Ek • Städning 2h"},
            f"{TEN} is now “Bo Ek • Städning 2h”.",
        ),
        (
            BASE,
            {**BASE, "end": "15:00", "title": "Anna Svensson • Sjuk", "address": "Storgatan 1, 412 58 Goteborg"},
            f"{TEN} now ends at 15:00; it is now “Sjuk”.",
        ),
        (
            BASE,
            {**BASE, "title": "Bo Ek • Fönsterputs avbokad"},
            f"{TEN} is cancelled; it is now for Bo Ek; it is now “Fönsterputs”.",
        ),
        ({**SICK, "title": "Lunch"}, {**SICK, "title": "Möte"}, "The 12:00 shift on 2026-02-10 is now “Möte”."),
    ],
)
def test_each_change_is_described_by_a_sentence(
    old: dict[str, Any] | None, new: dict[str, Any] | None, sentence: str
) -> None:
    before, after = shifts(old) if old else (), shifts(new) if new else ()
    (change,) = diff(before, after)
    assert format_change(DAY, change, day_shifts=[*before, *after]) == sentence


def test_sentence_identifies_the_shift_among_several_at_one_time() -> None:
    bo = {**BASE, "title": "Bo Ek • Städning"}
    before, after = shifts(BASE, bo), shifts(BASE, {**bo, "end": "15:00"})
    (change,) = diff(before, after)
    which = f"The 10:00–14:00 shift on 2026-02-10 (Bo Ek • Städning, {STORGATAN}) now ends at 15:00."
    assert format_change(DAY, change, day_shifts=[*before, *after]) == which
    assert format_change(DAY, change) == which, "where it is unknown whether there are others"


def test_shifts_that_swap_locations_are_identified_by_name() -> None:
    anna, bo = ({"title": name, "location": "Billdal"} for name in ("Anna • Städning", "Bo • Städning"))
    early, late = {"start": "08:00", "end": "10:00"}, {"start": "10:00", "end": "12:00"}
    before, after = shifts({**anna, **early}, {**bo, **late}), shifts({**anna, **late}, {**bo, **early})
    assert {format_change(DAY, change, day_shifts=[*before, *after]) for change in diff(before, after)} == {
        "The 08:00–10:00 shift on 2026-02-10 (Anna • Städning, Billdal) is now 10:00–12:00.",
        "The 10:00–12:00 shift on 2026-02-10 (Bo • Städning, Billdal) is now 08:00–10:00.",
    }


def test_a_notification_has_a_text_in_every_language() -> None:
    after = shifts({**BASE, "end": "15:00", "title": "Anna Svensson • Fönsterputs avbokad"})
    (notification,) = build_notifications(
        42, DAY, SESSION, build_events(SESSION, diff(shifts(BASE), after)), summary_threshold=3, day_shifts=after
    )
    swedish = "Passet 10:00 den 2026-02-10 slutar nu 15:00; det är avbokat; det är nu ”Fönsterputs”."
    assert notification.text("sv") == swedish
    assert notification.text("zh") == "2026-02-10 10:00 的班次：改为 15:00 结束；已取消；改为“Fönsterputs”。"
    assert notification.text("de") == notification.text() == notification.text("en")


def test_longest_sentence_fits_into_a_message() -> None:
    """A message has 4096 characters at most, in the database as in Telegram."""

    def max_length(letter: str, start: str) -> Shift:
        long_text = " ".join([letter * 9] * 50)
        title, address = f"{long_text[:249]} • {long_text[:248]}", f"{long_text[:498]} 1"
        (found,) = shifts({"start": start, "end": "14:00", "title": title, "address": address, "location": long_text})
        return found

    change = ShiftChange(EventType.TIME_CHANGED, max_length("a", "10:00"), max_length("b", "11:00"))
    assert 3000 < max(len(format_change(DAY, change, language)) for language in MESSAGES) <= 4096


def test_few_changes_get_one_notification_each_in_chronological_order() -> None:
    changes = diff((), shifts({**BASE, "start": "15:00", "end": "16:00"}, BASE))
    events = build_events(SESSION, changes)
    notifications = build_notifications(42, DAY, SESSION, list(reversed(events)), summary_threshold=3)
    assert [each.text()[:32] for each in notifications] == [
        "New shift on 2026-02-10: 10:00–1",
        "New shift on 2026-02-10: 15:00–1",
    ]
    assert all(each.type is NotificationType.EVENT and len(each.event_ids) == 1 for each in notifications)
    assert notifications == build_notifications(42, DAY, SESSION, events, summary_threshold=3)


def test_many_changes_get_one_summary() -> None:
    changes = diff((), shifts(*({**BASE, "start": f"{hour}:00", "end": f"{hour}:30"} for hour in (8, 9, 10))))
    events = build_events(SESSION, changes)
    (summary,) = build_notifications(42, DAY, SESSION, events, summary_threshold=3)
    assert summary.type is NotificationType.SUMMARY
    assert summary.text() == "3 changes on 2026-02-10."
    assert set(summary.event_ids) == {event.id for event in events}
    assert summary.id != build_notifications(43, DAY, SESSION, events, summary_threshold=3)[0].id
    assert summary.id != build_notifications(42, DAY, UUID(int=8), events, summary_threshold=3)[0].id


def test_no_change_gets_no_notification() -> None:
    assert build_notifications(42, DAY, SESSION, [], summary_threshold=1) == []


def test_missing_value_has_the_hash_of_null() -> None:
    (event,) = build_events(SESSION, diff((), shifts(BASE)))
    assert event.old_value_hash == NO_VALUE_HASH == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"
    assert event.new_value_hash == shifts(BASE)[0].value_hash
