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


@pytest.mark.parametrize(("seen", "said"), [(False, "created 7"), (True, "existing 7")])
def test_an_answer_says_whether_the_request_was_new(seen: bool, said: str) -> None:
    match enqueue(seen):
        case Created(row):
            assert_type(row, int)
            assert said == f"created {row}"
        case Existing(row):
            assert said == f"existing {row}"


def test_a_new_row_is_never_equal_to_an_existing_one() -> None:
    assert Created(7) != Existing(7)
    assert GiveUp("A", "b") != Failed("A", "b")


def test_a_result_is_copied_and_made_plain() -> None:
    result: Any = {"receipt": (1, 2.0)}
    done = Done(result)
    result["receipt"] = None
    assert done.result == {"receipt": [1, 2]}
    assert Done().result is None


@pytest.mark.parametrize("result", [{"a": "\0"}, {"a": math.nan}, {"a": 2**53}, {"a": b""}])
def test_a_result_that_cannot_be_stored_is_refused_where_it_is_made(result: Any) -> None:
    with pytest.raises(InvalidResult, match=r"^the handler's result cannot be stored: \$\.a: "):
        Done(result)


@pytest.mark.parametrize("seconds", [0, 1.5, MAX_SECONDS])
def test_later_takes_any_wait_within_a_year(seconds: float) -> None:
    assert Later(seconds).seconds == seconds


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf, -math.inf, MAX_SECONDS + 1])
def test_later_refuses_a_wait_that_is_none(seconds: float) -> None:
    with pytest.raises(InvalidArgument, match="seconds must be between 0 and"):
        Later(seconds)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("code", ["A", "TIMEOUT", "HTTP_503", "A" * 64])
def test_a_code_is_a_word_in_capitals(problem: type[GiveUp | Failed], code: str) -> None:
    assert problem(code, "").code == code


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("code", ["", "timeout", "1A", "_A", "A-B", "A\n", "Ä", "A" * 65, "A\0", "\ud800"])
def test_any_other_code_is_refused(problem: type[GiveUp | Failed], code: str) -> None:
    with pytest.raises(InvalidArgument, match="error code"):
        problem(code, "")


@pytest.mark.parametrize("problem", PROBLEMS)
@given(st.text(st.characters(), max_size=50))
def test_any_message_is_kept_in_a_form_that_can_be_stored(problem: type[GiveUp | Failed], message: str) -> None:
    kept = problem("CODE", message).message
    assert "\0" not in kept
    kept.encode()
    assert len(kept) == len(message)


def test_a_long_message_is_cut() -> None:
    assert Failed("CODE", "x" * 10_000_000).message == "x" * MAX_TEXT_LENGTH


def test_cleaning_leaves_good_text_alone_and_shows_where_bad_characters_were() -> None:
    assert clean_text("Zürich \U0001f600\n") == "Zürich \U0001f600\n"
    assert clean_text("a\0b\ud800c") == "a\ufffdb\ufffdc"
    assert clean_text("abc", 2) == "ab"


def test_an_outcome_is_one_of_four() -> None:
    said: list[Outcome] = [Done(), Later(1), GiveUp("A", "b"), Failed("A", "b")]
    assert len({type(outcome) for outcome in said}) == 4
