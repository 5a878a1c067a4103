"""Names of locks: 64 bits, one key per name, the same for ever."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.db.advisory import advisory_key
from duly.errors import InvalidArgument

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
NAMES = st.lists(TEXT | st.integers() | st.dates(), min_size=1, max_size=4)


@given(NAMES)
def test_a_key_is_a_signed_64_bit_number_and_the_same_every_time(name: list[str | int | date]) -> None:
    assert -(2**63) <= advisory_key(*name) < 2**63
    assert advisory_key(*name) == advisory_key(*name)


@given(NAMES, NAMES)
def test_different_names_have_different_keys(one: list[str | int | date], other: list[str | int | date]) -> None:
    same_name = [*map(type, one), *one] == [*map(type, other), *other]
    assert (advisory_key(*one) == advisory_key(*other)) is same_name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("a", "bc"), ("ab", "c")),
        (("a", ""), ("a",)),
        (("", "a"), ("a", "")),
        (("a", 7), ("a", "7")),
        (("a", 1, 2), ("a", 12)),
        (("a", date(2025, 1, 31)), ("a", "2025-01-31")),
        (("s1:a",), ("a",)),
        (("a", "b"), ("b", "a")),
        (("a", 10), ("a", 16)),
        (("a", 7), ("a", -7)),
    ],
)
def test_key_depends_on_the_type_and_boundary_of_every_part(
    one: tuple[str | int | date], other: tuple[str | int | date]
) -> None:
    assert advisory_key(*one) != advisory_key(*other)


def test_keys_never_change_between_releases() -> None:
    assert advisory_key("ingest.day", 4_242_424_242, date(2026, 2, 12)) == 1337168889003156906
    assert advisory_key("partitions") == -8371532618176495731


def test_advisory_keys_have_both_signs() -> None:
    assert {advisory_key("sign", number) > 0 for number in range(64)} == {True, False}


def test_a_hundred_thousand_names_do_not_collide() -> None:
    assert len({advisory_key("collision", number) for number in range(100_000)}) == 100_000


@pytest.mark.parametrize("part", [True, datetime(2026, 2, 12, tzinfo=UTC)])
def test_bool_and_datetime_parts_are_refused(part: int | date) -> None:
    with pytest.raises(InvalidArgument, match=f"a part is a {type(part).__name__}"):
        advisory_key("a", part)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="lone surrogate"):
        advisory_key("a", "\ud800")


def test_a_lock_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="needs a name"):
        advisory_key()
