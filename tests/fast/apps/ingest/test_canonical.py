"""One canonical form: entries that mean the same have the same form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.apps.ingest.canonical import canonicalize
from duly.apps.ingest.noise import add_noise
from duly.apps.ingest.spelling import as_name, as_time
from duly.errors import InvalidArgument
from tests.support.ingest.strategies import days, payload, wild_days

ENTRY = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}


def test_example_of_the_contract_is_already_canonical() -> None:
    seen = canonicalize(payload(ENTRY))
    assert seen.payload == payload(ENTRY)
    assert seen.schedule_date.isoformat() == "2026-02-10"
    assert len(seen.payload_hash) == 64


@given(days | wild_days)
def test_canonicalizing_is_idempotent(day: dict[str, Any]) -> None:
    once = canonicalize(day)
    assert canonicalize(once.payload) == once


def test_noise_is_deterministic_per_seed_and_varies_between_seeds() -> None:
    day = payload(ENTRY, {**ENTRY, "start": "15:00", "end": "17:00"})
    assert add_noise(day, 7) == add_noise(day, 7)
    assert len({str(add_noise(day, seed)) for seed in range(20)}) > 10


@given(days, st.randoms())
def test_order_of_entries_does_not_matter(day: dict[str, Any], chance: Any) -> None:
    shuffled = list(day["entries"])
    chance.shuffle(shuffled)
    assert canonicalize({**day, "entries": shuffled}) == canonicalize(day)


@pytest.mark.parametrize(
    "spelled",
    ["9:5", "09:05", "9.05", "09 05", " 9 : 5 ", "9:05", "０９：０５"],  # noqa: RUF001
)
def test_times_are_normalized_to_one_format(spelled: str) -> None:
    assert as_time(spelled) == "09:05"


@pytest.mark.parametrize("spelled", ["", "9", "25:00", "10:60", "24:01", "-1:00", "10:00:00", "ten", "1000", "1 0 0"])
def test_an_invalid_time_is_refused_with_its_path(spelled: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^entries\[0\]\.start: must be a time such as 10:00, not "):
        canonicalize(payload({**ENTRY, "start": spelled}))


def test_end_times_24_00_and_00_00_are_equal() -> None:
    assert canonicalize(payload({**ENTRY, "end": "24:00"})) == canonicalize(payload({**ENTRY, "end": "0:0"}))


def test_case_and_whitespace_are_normalized() -> None:
    loud = {**ENTRY, "title": "  CLEANING ", "location": "bill\u0064al"}
    assert canonicalize(payload(loud)) == canonicalize(payload(ENTRY))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("anna-lena ÖBERG", "Anna-Lena Öberg"),
        ("straße", "Straße"),
        ("A\u030asa", "Åsa"),
        ("4H", "4h"),
        ("x\u00a0 y", "X Y"),
    ],
)
def test_names_are_capitalized(written: str, name: str) -> None:
    assert as_name(written) == name


def test_equal_entries_are_deduplicated() -> None:
    assert canonicalize(payload(ENTRY, {**ENTRY, "title": "cleaning"})) == canonicalize(payload(ENTRY))


def test_unknown_keys_are_kept_normalized_and_hashed_but_do_not_affect_shifts() -> None:
    plain = canonicalize(payload(ENTRY))
    more = canonicalize(payload({**ENTRY, "note": " a  b "}, source={"app": "x  y"}, extra=[1, None, True]))
    assert more.payload["entries"] == [{**ENTRY, "note": "a b"}]
    assert more.payload["source"] == {"app": "x y"}
    assert more.payload["extra"] == [1, None, True]
    assert more.payload_hash != plain.payload_hash
    assert more.shifts == plain.shifts


def test_a_day_may_be_empty() -> None:
    assert canonicalize({"schedule_date": "2026-02-10"}) == canonicalize(payload())
    assert canonicalize(payload()).shifts == ()


@pytest.mark.parametrize(
    ("day", "expected_text"),
    [
        ({}, "schedule_date: must be a day such as 2026-02-10, not missing"),
        ({"schedule_date": "10/02/2026"}, "schedule_date: must be a day such as 2026-02-10, not '10/02/2026'"),
        ({"schedule_date": "2026-02-30"}, "schedule_date: must be a day"),
        ({"schedule_date": "20260210"}, "schedule_date: must be a day"),
        ({"schedule_date": 20260210}, "schedule_date: must be a day"),
        ({"schedule_date": "1999-12-31"}, "schedule_date: must lie in the years 2000 to 2199"),
        (payload() | {"entries": {}}, "entries: must be a list"),
        (payload("x"), r"entries\[0\]: must be an object"),  # type: ignore[arg-type]
        (payload({**ENTRY, "title": " "}), r"entries\[0\]\.title: must be there, and not empty"),
        (payload({**ENTRY, "title": 7}), r"entries\[0\]\.title: must be text, not 7"),
        (payload({**ENTRY, "location": ["x"]}), r"entries\[0\]\.location: must be text"),
        (
            payload({**ENTRY, "address": "x" * 501}),
            r"entries\[0\]\.address: has 501 characters; at most 500 make a name",
        ),
        (payload(*[ENTRY] * 501), "entries: has 501 entries; at most 500 make a day"),
        ([], r"\$: must be an object, not list"),
    ],
)
def test_an_invalid_payload_is_refused_with_its_path(day: Any, expected_text: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{expected_text}"):
        canonicalize(day)
