"""Comparison follows what is visible: different text is a change, different spelling is not."""

from typing import Any

import pytest

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.diff import diff
from duly.apps.ingest.shift import Shift
from tests.support.ingest.strategies import payload

ADDRESS = "Storgatan 1, 412 58 Göteborg"


def shifts(*entries: dict[str, Any] | str) -> tuple[Shift, ...]:
    """The shifts of entries, of which a title alone is one from 10 to 14."""
    complete_entries = [{"title": each} if isinstance(each, str) else each for each in entries]
    return canonicalize(payload(*({"start": "10:00", "end": "14:00", **each} for each in complete_entries))).shifts


def at(address: str = "", location: str = "") -> dict[str, Any]:
    """An entry that is at a place."""
    return {"title": "Anna • Städning", "address": address, "location": location}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Städning hos Anna Svensson", "Städning hos Bo Berg"),
        ("Kontoret Norr", "Kontoret Söder"),
        ("Skola Eken", "Skola Björken"),
        ("Möte med chefen", "Möte med facket"),
        ("Restid till Borås", "Restid till Kungälv"),
        ("Anna • Städning avbokad", "Anna • Städning"),
        ("Anna • Städning kök", "Anna • Städning badrum"),
        ("Städning kök", "Städning badrum"),
        ("Förskolan 3 Eken", "Förskolan 4 Eken"),
        ("Anna Svensson • Möte", "Bo Berg • Möte"),
        ("Bergs AB • Kontor", "Bergs HB • Kontor"),
        ("Anna • Städning 3h", "Anna • Städning 2h"),
        ("Rum 1-2", "Rum 12"),
        ("Ilse Berg • Städning", "Lise Berg • Städning"),
        ("Travel", "Gravel"),
        ("Available", "Unavailable"),
        ("Städning", "Städning ❌"),
        (at("Storgatan 1 uppgång B, 412 58 Göteborg"), at("Storgatan 1 uppgång C, 412 58 Göteborg")),
        (at("Storgatan 12 lgh 1103 port 4 Göteborg Norr"), at("Storgatan 12 lgh 1103 hus 4 Göteborg Norr")),
        (at(ADDRESS, "Plan 3"), at(ADDRESS, "Plan 4")),
        (at(ADDRESS, "Billdal"), at(ADDRESS, "Askim")),
        (at(ADDRESS), at("Storgatan 1, 412 59 Göteborg")),
    ],
)
def test_visible_change_gives_one_event(old: Any, new: Any) -> None:
    for before, after in ((old, new), (new, old)):
        assert len(diff(shifts(before), shifts(after))) == 1
    assert len(shifts(old, new)) == 2, "two entries that differ for a person are two shifts"
    assert [change.type for change in diff(shifts(old, new), shifts(new))] == ["shift_removed"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Anna Svensson • Städning", "ANNA  svensson · STÄDNING "),
        ("Anna Svensson • Städning", "Anna Svensson • Städning 4h"),
        ("Åsa Öberg", "A\u030asa O\u0308berg"),
        ("Åsa Öberg", "Asa Oberg"),
        ("O'Connor • Städning", "O’Connor • Städning"),  # noqa: RUF001
        ("Anna Svensson", "Anna\u200b Svensson"),
        ("Förskolan 3 Eken", "Förskolan ３ Eken"),  # noqa: RUF001
        ("Anna Svensson", "Anna Svenss0n"),
        ("Rum 10", "Rum 1O"),
        ("Fönsterputs", "Fonsterputz"),
        (at(location="Göteborg"), at(location="Goteborg")),
        (at("Storgatan 10, Göteborg"), at("St0rgatan lO, Göteborg")),
        (at("Storgatan 1, Göteborg"), at("Göteborg, Storgatan 1")),
        (at("storgatan 12b 41258 göteborg"), at("Storgatan 12 B, 412 58 Göteborg", "Göteborg")),
    ],
)
def test_different_spelling_gives_no_event(old: Any, new: Any) -> None:
    assert diff(shifts(old), shifts(new)) == diff(shifts(new), shifts(old)) == []


@pytest.mark.parametrize(
    "customer",
    [
        "Skolan Eken", "Office Depot", "Kontoret Norr", "Café Paus", "Restids AB", "Meeting Point", "Admin Olsson",
        "Lunchen Café", "Bergs Städning AB", "Scholl Fotvård", "Officer Berg", "Skola Eken",
    ],
)  # fmt: skip
def test_customer_name_similar_to_a_label_stays_the_customer(customer: str) -> None:
    for title in (customer, f"{customer} • Städning", f"Städning hos {customer}", f"{customer} Städning"):
        (found,) = shifts(title)
        assert found.customer_name.casefold() == customer.casefold(), title
        assert found.shift_type in ("UNKNOWN", "WORK")


def test_two_spellings_on_one_day_are_separate_shifts() -> None:
    both, one = shifts("Märta Ek", "Marta Ek"), shifts("Marta Ek")
    assert len(both) == 2
    (change,) = diff(both, one)
    assert (change.old, change.new) == (shifts("Märta Ek")[0], None)
