"""Outcomes: what is in one can be stored, so that recording a failure cannot itself fail."""

import math
from typing import Any, assert_type

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.backoff import MAX_SECONDS
from duly.errors import InvalidArgument, InvalidResult
from duly.outcomes import MAX_TEXT_LENGTH, Created, Creation, Done, Existing, Failed, GiveUp, Later, Outcome, clean_text

PROBLEMS = [GiveUp, Failed]


def enqueue(seen: bool) -> Creation[int]:
    return Existing(7) if seen else Created(7)


@pytest.mark.parametrize(("seen", "expected"), [(False, "created 7"), (True, "existing 7")])
def test_created_and_existing_distinguish_new_from_repeated_requests(seen: bool, expected: str) -> None:
    match enqueue(seen):
        case Created(row):
            assert_type(row, int)
            assert expected == f"created {row}"
        case Existing(row):
            assert expected == f"existing {row}"


def test_outcomes_of_different_types_are_never_equal() -> None:
    assert Created(7) != Existing(7)
    assert GiveUp("A", "b") != Failed("A", "b")


def test_done_copies_its_result_as_plain_json() -> None:
    result: Any = {"receipt": (1, 2.0)}
    done = Done(result)
    result["receipt"] = None
    assert done.result == {"receipt": [1, 2]}
    assert Done().result is None


@pytest.mark.parametrize("result", [{"a": "\0"}, {"a": math.nan}, {"a": 2**53}, {"a": b""}])
def test_done_refuses_a_result_that_cannot_be_stored(result: Any) -> None:
    with pytest.raises(InvalidResult, match=r"^the handler's result cannot be stored: \$\.a: "):
        Done(result)


@pytest.mark.parametrize("seconds", [0, 1.5, MAX_SECONDS])
def test_later_accepts_waits_up_to_its_maximum(seconds: float) -> None:
    assert Later(seconds).seconds == seconds


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, -math.inf, MAX_SECONDS + 1])
def test_later_refuses_an_invalid_wait(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="seconds must be between 0 and"):
        Later(seconds)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("code", ["A", "TIMEOUT", "HTTP_503", "A" * 64])
def test_error_code_is_an_upper_case_identifier(problem: type[GiveUp | Failed], code: str) -> None:
    assert problem(code, "").code == code


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("code", ["", "timeout", "1A", "_A", "A-B", "A\n", "Ä", "A" * 65, "A\0", "\ud800"])
def test_invalid_error_code_is_refused(problem: type[GiveUp | Failed], code: str) -> None:
    with pytest.raises(InvalidArgument, match="error code"):
        problem(code, "")


@pytest.mark.parametrize("problem", PROBLEMS)
@given(st.text(st.characters(), max_size=50))
def test_any_message_is_cleaned_until_it_can_be_stored(problem: type[GiveUp | Failed], message: str) -> None:
    kept = problem("CODE", message).message
    assert "\0" not in kept
    kept.encode()
    assert len(kept) == len(message)


def test_long_message_is_truncated() -> None:
    assert Failed("CODE", "x" * 10_000_000).message == "x" * MAX_TEXT_LENGTH


def test_clean_text_replaces_only_unstorable_characters() -> None:
    assert clean_text("Zürich \U0001f600\n") == "Zürich \U0001f600\n"
    assert clean_text("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert clean_text("abc", 2) == "ab"


def test_an_outcome_is_one_of_four() -> None:
    expected: list[Outcome] = [Done(), Later(1), GiveUp("A", "b"), Failed("A", "b")]
    assert len({type(outcome) for outcome in expected}) == 4
