"""Customer, location, times and type, parsed from an entry."""

from typing import Any

import pytest

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.labels import ShiftType, find_label
from duly.apps.ingest.shift import Shift, distance
from tests.support.ingest.strategies import payload


def shift(title: str = "Anna Svensson • Städning", start: str = "10:00", end: str = "14:00", **more: Any) -> Shift:
    """The shift of one entry."""
    (found,) = canonicalize(payload({"start": start, "end": end, "title": title, **more})).shifts
    return found


@pytest.mark.parametrize(
    ("title", "customer", "label", "shift_type"),
    [
        ("Anna Svensson • Städning 4h", "Anna Svensson", "Städning", "WORK"),
        ("anna svensson · städning", "Anna Svensson", "Städning", "WORK"),
        ("Anna Svensson Fönsterputs 2h 30m", "Anna Svensson", "Fönsterputs", "WORK"),
        ("Cleaning", "", "Cleaning", "WORK"),
        ("Lunch", "", "Lunch", "BREAK"),
        ("Vård av barn", "", "Vård Av Barn", "LEAVE"),
        ("Ej disponibel", "", "Ej Disponibel", "UNAVAILABLE"),
        ("Personalmöte 25m", "", "Personalmöte", "MEETING"),
        ("Bergs Städservice AB • Kontor", "Bergs Städservice Ab", "Kontor", "WORK"),
        ("AB • Kontor", "Ab", "Kontor", "WORK"),
        ("Brf 12 Eken", "Brf 12 Eken", "", "UNKNOWN"),
        ("Someone • Something Odd", "Someone", "Something Odd", "UNKNOWN"),
        ("Stadning", "", "Städning", "WORK"),
        ("Fonsterputz", "", "Fönsterputs", "WORK"),
        ("4h", "4h", "", "UNKNOWN"),
        ("Städning hos Anna Svensson", "Anna Svensson", "Städning", "WORK"),
        ("Städning kök", "", "Städning Kök", "WORK"),
        ("Anna • Städning kök avbokad", "Anna", "Städning Kök Avbokad", "WORK"),
        ("Avbokad städning", "", "Städning Avbokad", "WORK"),
        ("Anna • Avbokad städning", "Anna", "Avbokad Städning", "WORK"),
        ("Anna Svensson avbokad", "Anna Svensson", "Avbokad", "UNAVAILABLE"),
        ("Anna Svensson • Avbokad", "Anna Svensson", "Avbokad", "UNAVAILABLE"),
        ("Avbokad", "", "Avbokad", "UNAVAILABLE"),
        ("Anna Svensson • Möte", "Anna Svensson", "Möte", "MEETING"),
        ("Möte med chefen", "", "Möte Med Chefen", "MEETING"),
        ("Lunch på kontoret", "", "Lunch På Kontoret", "BREAK"),
        ("Städning • Anna Svensson", "Anna Svensson", "Städning", "WORK"),
        ("Anna Svensson •", "Anna Svensson", "", "UNKNOWN"),
    ],
)
def test_title_is_split_into_customer_label_and_type(title: str, customer: str, label: str, shift_type: str) -> None:
    found = shift(title)
    assert (found.customer_name, found.raw_type_label, found.shift_type) == (customer, label, shift_type)


@pytest.mark.parametrize(
    ("address", "location", "parts"),
    [
        ("Storgatan 12 B, 412 58 Göteborg", "", ("Storgatan", "12B", "412 58", "Göteborg", "Göteborg")),
        ("storgatan 12b 41258 göteborg", "", ("Storgatan", "12B", "412 58", "Göteborg", "Göteborg")),
        ("Göteborg, Storgatan 1", "", ("Storgatan", "1", "", "", "Göteborg")),
        ("Storgatan 1", "Billdal", ("Storgatan", "1", "", "", "Billdal")),
        ("Storgatan 1 Västra Frölunda", "", ("Storgatan", "1", "", "", "Västra Frölunda")),
        ("", "Billdal", ("", "", "", "", "Billdal")),
        ("", "Storgatan 1, Billdal", ("Storgatan", "1", "", "", "Billdal")),
        ("Slottet", "Billdal", ("Slottet", "", "", "", "Billdal")),
        ("", "", ("", "", "", "", "")),
    ],
)
def test_address_is_split_into_parts(address: str, location: str, parts: tuple[str, ...]) -> None:
    found = shift(address=address, location=location)
    assert (found.street, found.street_number, found.postal_code, found.postal_area, found.city) == parts


@pytest.mark.parametrize(
    ("address", "location", "expected"),
    [
        ("Storgatan 1 uppgång B, 412 58 Göteborg", "", "Storgatan 1, 412 58 Göteborg, Uppgång B"),
        ("Storgatan 1, Port 3, 412 58 Göteborg", "Billdal", "Storgatan 1, 412 58 Göteborg, Port 3 Billdal"),
        ("Storgatan 1 2 tr ner Västra Frölunda", "Plan 3", "Storgatan 1 2, Västra Frölunda, Tr Ner Plan 3"),
        ("Storgatan 1, Göteborg", "Göteborg", "Storgatan 1, Göteborg"),
        ("Storgatan 1", "Billdal", "Storgatan 1, Billdal"),
        ("", "Billdal", "Billdal"),
    ],
)
def test_address_parsing_loses_no_word(address: str, location: str, expected: str) -> None:
    assert shift(address=address, location=location).address == expected


def test_duration_in_a_title_is_dropped_if_it_equals_the_times() -> None:
    assert shift("Anna • Städning 4h").title == "Anna • Städning"
    assert shift("Anna • Städning 3h 59m").title == "Anna • Städning 3h 59m"
    assert shift("Anna • Städning • 4 h").title == "Anna • Städning"
    assert shift("4h").title == "4h"


def test_shift_without_a_label_but_with_an_address_is_work() -> None:
    assert shift("Anna", address="Storgatan 1").shift_type == ShiftType.WORK
    assert shift("Anna").shift_type == ShiftType.UNKNOWN


def test_the_order_of_an_address_does_not_change_the_location() -> None:
    one = shift(address="Göteborg, Storgatan 1")
    other = shift(address="Storgatan 1, 412 58 Göteborg")
    assert one.location_fingerprint == other.location_fingerprint
    assert one != other  # the postal code is new, and an event will say so


def test_customers_with_the_same_surname_and_initial_are_different() -> None:
    anna, anders = shift("Anna Svensson • Städning"), shift("Anders Svensson • Städning")
    assert anna.customer_fingerprint != anders.customer_fingerprint


def test_a_name_read_in_another_order_is_the_same_customer() -> None:
    assert shift("Svensson Anna • Städning").customer_fingerprint == shift().customer_fingerprint
    assert shift("Bergs AB • Städning").customer_fingerprint == shift("Bergs • Städning").customer_fingerprint


def test_location_fingerprint_ignores_letters_misread_as_digits() -> None:
    assert (
        shift(address="St0rgatan lO, Göteborg").location_fingerprint
        == shift(address="Storgatan 10, Göteborg").location_fingerprint
    )
    assert (
        shift(address="Storgatan 1, Göteborg").location_fingerprint
        != shift(address="Storgatan 10, Göteborg").location_fingerprint
    )


def test_a_shift_without_an_address_is_located_by_its_city() -> None:
    assert shift(location="Billdal").location_fingerprint == shift("Lunch", location="Billdal").location_fingerprint
    assert shift(location="Billdal").location_fingerprint != shift(location="Mölndal").location_fingerprint


def test_customer_name_equal_to_a_label_is_not_a_label() -> None:
    assert shift("Lunch • Städning").customer_fingerprint != shift("Lunch").customer_fingerprint


def test_time_distance_wraps_around_midnight() -> None:
    assert distance(shift(start="23:50", end="06:00"), shift(start="00:10", end="06:00")) == 20


def test_words_without_a_label_give_none() -> None:
    assert find_label(()) is None
    assert find_label(("Svensson",)) is None
