"""One canonical form per value, and errors that say where a value is invalid."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.canonical_json import (
    MAX_BYTES,
    MAX_NUMBER,
    canonical_bytes,
    checked_json,
    checked_json_bytes,
    checked_json_digest,
    digest,
    digest_hex,
)
from duly.errors import InvalidArgument

STRINGS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
NUMBERS = st.integers(-MAX_NUMBER, MAX_NUMBER) | st.floats(-1e15, 1e15)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | STRINGS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(STRINGS, inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(STRINGS, VALUES, max_size=5)


@given(OBJECTS, st.randoms())
def test_the_digest_does_not_depend_on_the_order_of_keys(value: dict[str, Any], random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert digest({key: value[key] for key in keys}) == digest(value)


@given(OBJECTS)
def test_canonical_bytes_parsed_and_encoded_again_are_the_same(value: dict[str, Any]) -> None:
    written = canonical_bytes(value)
    assert canonical_bytes(json.loads(written)) == written


@given(OBJECTS)
def test_checked_json_keeps_the_digest_and_does_not_change_its_argument(value: dict[str, Any]) -> None:
    before = copy.deepcopy(value)
    let_in = checked_json(value)
    assert repr(value) == repr(before)
    assert digest(let_in) == digest(value)
    assert checked_json(let_in) == let_in


@given(OBJECTS)
def test_the_size_limit_counts_the_bytes_of_the_canonical_form(value: dict[str, Any]) -> None:
    size = len(canonical_bytes(value))
    checked_json(value, max_bytes=size)
    with pytest.raises(InvalidArgument, match=f"limit of {size - 1} bytes"):
        checked_json(value, max_bytes=size - 1)


def test_a_small_value_nested_into_billions_of_copies_is_refused_early() -> None:
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    with pytest.raises(InvalidArgument, match=f"limit of {MAX_BYTES} bytes"):
        checked_json({"a": value})


@given(OBJECTS)
def test_the_fast_encoder_of_checked_json_writes_canonical_bytes(value: dict[str, Any]) -> None:
    checked = checked_json(value)
    assert checked_json_bytes(checked) == canonical_bytes(checked)
    assert checked_json_digest(checked) == digest_hex(checked)
