"""Several photographs of one day are one day."""

from datetime import date
from typing import Any

import pytest

from duly.apps.ingest.aggregate import aggregate
from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.pages import DayPage, group_by_day
from duly.errors import InvalidArgument
from tests.support.ingest.strategies import payload

BASE: dict[str, Any] = {
    "start": "10:00",
    "end": "14:00",
    "title": "Anna Svensson • Städning",
    "address": "Storgatan 1, Göteborg",
}


def times(*pages: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the times of the shifts of these photographs."""
    return [(shift.start, shift.end) for shift in canonicalize(aggregate(pages)).shifts]


def test_aggregate_of_one_photograph_is_unchanged() -> None:
    page = payload(BASE, {**BASE, "start": "10:03"})
    assert aggregate([page]) == page


def test_shift_on_two_photographs_is_merged() -> None:
    assert canonicalize(aggregate([payload(BASE), payload(BASE)])) == canonicalize(payload(BASE))


def test_times_that_differ_by_minutes_are_merged_to_the_longer_range() -> None:
    assert times(payload(BASE), payload({**BASE, "start": "10:02", "end": "14:03"})) == [("10:00", "14:03")]


def test_truncated_shift_is_merged_into_the_complete_one() -> None:
    assert times(payload({**BASE, "start": "11:00"}), payload(BASE)) == [("10:00", "14:00")]


def test_truncated_night_shift_is_merged_into_the_complete_one() -> None:
    night = {**BASE, "start": "22:00", "end": "06:00"}
    assert times(payload(night), payload({**night, "start": "23:00", "end": "05:00"})) == [("22:00", "06:00")]


def test_two_visits_are_not_merged() -> None:
    assert times(payload(BASE), payload({**BASE, "start": "15:00", "end": "16:00"})) == [
        ("10:00", "14:00"),
        ("15:00", "16:00"),
    ]


def test_two_customers_at_one_address_and_time_are_not_merged() -> None:
    other = {**BASE, "title": "Bo Ek • Städning"}
    assert len(canonicalize(aggregate([payload(BASE, other), payload(other, BASE)])).shifts) == 2


@pytest.mark.parametrize(
    ("one", "other", "count"),
    [
        ("Anna • Städning kök", "Anna • Städning badrum", 2),
        ("Förskolan Eken • Sal 3", "Förskolan Eken • Sal 4", 2),
        ("Anna • Städning kök", "Anna • Städning", 1),
        ("Anna • Städning badrum", "Anna • Städning badr", 1),
        ("Anna • Stadninq badrum", "Anna • Städning badrurn", 1),
    ],
)
def test_entries_of_two_photographs_are_merged_if_their_titles_are_compatible(one: str, other: str, count: int) -> None:
    pages = [payload({**BASE, "title": title}) for title in (one, other)]
    assert len(canonicalize(aggregate(pages)).shifts) == count


def test_entries_of_one_photograph_are_never_merged() -> None:
    near = {**BASE, "start": "10:03"}
    assert len(times(payload(BASE, near), payload())) == 2


def test_merge_keeps_the_more_complete_address() -> None:
    bare = {**BASE, "address": "Storgatan 1, Göteborg"}
    full = {**BASE, "address": "Storgatan 1, 412 58 Göteborg"}
    (found,) = canonicalize(aggregate([payload(bare), payload(full)])).shifts
    assert (found.postal_code, found.street_number) == ("412 58", "1")


def test_words_of_the_user_interface_are_not_part_of_an_address() -> None:
    noise = {**BASE, "address": "Schedule Account Profile Storgatan 1 Göteborg"}
    (found,) = canonicalize(aggregate([payload(noise), payload(BASE)])).shifts
    assert found.street == "Storgatan"


def test_differently_read_location_is_merged_if_everything_else_agrees() -> None:
    misread = {**BASE, "address": "Stcrgatan 1, Göteborg"}
    assert len(times(payload(BASE), payload(misread))) == 1


def test_photograph_without_a_date_inherits_the_date_of_the_others() -> None:
    page: dict[str, Any] = {"entries": [BASE]}
    assert canonicalize(aggregate([page, payload(BASE)])) == canonicalize(payload(BASE))


def test_pages_of_different_dates_are_never_merged() -> None:
    one, other = DayPage(payload(BASE)), DayPage(payload(BASE, date="2026-02-11"))
    assert group_by_day([other, one, other]) == {date(2026, 2, 10): [one], date(2026, 2, 11): [other, other]}


def test_photographs_without_any_date_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="none of the photographs shows a date"):
        group_by_day([DayPage({"entries": []}), DayPage({"entries": []})])
