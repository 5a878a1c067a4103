"""One canonical form per value, and errors that say where a value is invalid."""

import hashlib
import json
import struct
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest

from duly.canonical_json import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_NUMBER,
    Json,
    canonical_bytes,
    checked_json,
    checked_json_bytes,
    digest,
    digest_hex,
)
from duly.errors import InvalidArgument


class Colour(StrEnum):
    RED = "red"


class OldColour(str, Enum):  # noqa: UP042 (its str() is not its value, and such enums exist)
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def nested(levels: int, innermost: object = None) -> dict[str, object]:
    """An object of that many levels, built without recursion."""
    value: object = innermost
    for _ in range(levels - 1):
        value = [value]
    return {"a": value}


def test_canonical_bytes_match_the_example_of_rfc_8785() -> None:
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        '"string":"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )
    assert canonical_bytes(value) == expected.encode()


def test_keys_are_sorted_as_in_the_example_of_rfc_8785() -> None:
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    ordered = list(json.loads(canonical_bytes(dict.fromkeys(keys))))
    assert ordered == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("41b3de4355555553", "333333333.3333332"),
    ],
)
def test_numbers_are_formatted_as_in_the_table_of_rfc_8785(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_bytes(number) == text.encode()


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0, -0.0), (0.0, -0.0), ([], ()), ("red", Colour.RED)])
def test_equal_json_values_have_the_same_digest(one: object, other: object) -> None:
    assert digest({"a": one}) == digest({"a": other})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (0, None), ("1", 1), ([], {}), ("\u00e9", "e\u0301"), ([1, 2], [2, 1])]
)
def test_different_json_values_have_different_digests(one: object, other: object) -> None:
    assert digest({"a": one}) != digest({"a": other})


def test_the_digest_is_sha_256_of_the_bytes() -> None:
    value: Json = {"b": 1, "a": "x"}
    assert digest(value) == hashlib.sha256(b'{"a":"x","b":1}').digest()
    assert digest_hex(value) == digest(value).hex()
    assert len(digest(value)) == 32


def a_value_that_contains_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**53, 10**5000, {1: 2}, "\ud800", {"\ud800": 1}, {1, 2}, b"", nested(100_000)],
    ids=lambda value: type(value).__name__,
)
def test_value_without_a_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument):
        canonical_bytes(value)


def test_canonical_bytes_refuses_a_value_that_contains_itself() -> None:
    with pytest.raises(InvalidArgument, match="nested too deeply"):
        canonical_bytes(a_value_that_contains_itself())


def test_checked_json_returns_a_deep_copy() -> None:
    inner = [1]
    accepted = checked_json({"a": inner})
    inner.append(2)
    assert accepted == {"a": [1]}


@pytest.mark.parametrize(
    ("value_in", "accepted"),
    [
        ((1, (2,)), [1, [2]]),
        (1.0, 1),
        (-0.0, 0),
        (1.5, 1.5),
        (True, True),
        (Colour.RED, "red"),
        (OldColour.RED, "red"),
        (Level.HIGH, 3),
        (float(MAX_NUMBER), MAX_NUMBER),
        (-MAX_NUMBER, -MAX_NUMBER),
        ({Colour.RED: 1}, {"red": 1}),
    ],
)
def test_checked_json_returns_plain_json_values(value_in: object, accepted: object) -> None:
    returned = checked_json(value_in, object_only=False)
    assert returned == accepted
    assert json.dumps(returned) == json.dumps(accepted)
    assert type(returned) is type(accepted)


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ({"entries": [0, 1, 2, {"title": "a\0b"}]}, "$.entries[3].title", "contains the character NUL"),
        ({"a": {"b\0": 1}}, '$.a["b\\u0000"]', "its key contains the character NUL"),
        ({"a": ["\ud83d"]}, "$.a[0]", "contains a lone surrogate"),
        ({"\udc00": 1}, '$["\\udc00"]', "its key contains a lone surrogate"),
        ({"a": float("nan")}, "$.a", "not a finite number"),
        ({"a": float("-inf")}, "$.a", "not a finite number"),
        ({"a": MAX_NUMBER + 1}, "$.a", "beyond 2^53 - 1"),
        ({"a": -MAX_NUMBER - 1}, "$.a", "beyond 2^53 - 1"),
        ({"a": 10**5000}, "$.a", "beyond 2^53 - 1"),
        ({"a": 1e300}, "$.a", "beyond 2^53 - 1"),
        ({"a b": {3: 1}}, '$["a b"]', "has a key of type int"),
        ({None: 1}, "$", "has a key of type NoneType"),
        ({"a": Decimal(1)}, "$.a", "Decimal is not a JSON type"),
        ({"a": b"x"}, "$.a", "bytes is not a JSON type"),
        ({"a": {1, 2}}, "$.a", "set is not a JSON type"),
        (["a"], "$", "must be an object, not list"),
        (None, "$", "must be an object, not NoneType"),
    ],
)
def test_refusal_names_the_json_path_and_the_reason(value: object, path: str, reason: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        checked_json(value)
    assert str(refusal.value).startswith(f"{path}: ")
    assert reason in str(refusal.value)


def test_refusal_message_stays_short_and_printable_for_any_keys() -> None:
    value: object = float("nan")
    for _ in range(60):
        value = {"\U0001f600 \n" * 100: value}
    with pytest.raises(InvalidArgument) as refusal:
        checked_json(value)
    assert str(refusal.value).isascii()
    assert str(refusal.value).isprintable()
    assert len(str(refusal.value)) < 1000


@pytest.mark.parametrize("value", [None, True, 3, 1.5, "text", [1, 2]])
def test_object_only_false_allows_any_top_level_value(value: Json) -> None:
    assert checked_json(value, object_only=False) == value


@pytest.mark.parametrize("innermost", [{}, []])
def test_nesting_is_accepted_up_to_the_limit(innermost: object) -> None:
    checked_json(nested(MAX_DEPTH))
    checked_json(nested(MAX_DEPTH - 1, innermost))
    with pytest.raises(InvalidArgument, match="nested more than 64 levels deep"):
        checked_json(nested(MAX_DEPTH, innermost))


def test_nesting_of_100000_levels_is_refused_without_recursion_error() -> None:
    with pytest.raises(InvalidArgument, match="nested more than 64 levels deep"):
        checked_json(nested(100_000))


def test_checked_json_refuses_a_value_that_contains_itself() -> None:
    with pytest.raises(InvalidArgument, match="nested more than 64 levels deep"):
        checked_json({"a": a_value_that_contains_itself()})


@pytest.mark.parametrize("value", ["x" * MAX_BYTES, "\n" * (MAX_BYTES // 2), "\u20ac" * (MAX_BYTES // 3)])
def test_text_size_is_measured_in_encoded_bytes(value: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^\$\.a: here the value exceeds its limit of 1048576 bytes"):
        checked_json({"a": value})


def test_keys_count_towards_the_size_limit() -> None:
    with pytest.raises(InvalidArgument, match="exceeds its limit"):
        checked_json({"x" * MAX_BYTES: 1})


RARE: list[dict[str, Any]] = [
    {"\ue000": 1, "\U00010000": 2},  # in UTF-16 the second comes first
    {"a": [0.00001, -1.5, 1e-7, 123456789.5], "b": 0.1},
    {"a": "1.5", "b": ":1.5", "c": [",-2e5"]},
    {"ä": "\x7f\x1f\n\u2028/", 'a"': "\\", "B": MAX_NUMBER, "b": -MAX_NUMBER, "": [[], {}, True, None]},
]


@pytest.mark.parametrize("value", RARE)
def test_checked_json_bytes_equal_canonical_bytes_for_rare_values(value: dict[str, Any]) -> None:
    checked = checked_json(value)
    assert checked_json_bytes(checked) == canonical_bytes(checked)
