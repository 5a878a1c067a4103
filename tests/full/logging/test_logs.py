"""Log lines have one format and a bounded length, contain no secrets, and logging never raises."""

import json
import logging
import re
from typing import NoReturn

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.logging import MAX_LINE_LENGTH
from tests.fast.logging.test_logs import FORMS, Form, capture, capture_line, raised, restore_logging

__all__ = ["restore_logging"]


# Robustness -----------------------------------------------------------------------------------------------------------


class Hostile:
    """Cannot be output."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __repr__


class Lying(dict[str, object]):
    """Has items that raise."""

    def items(self) -> NoReturn:
        raise RuntimeError("no")


any_text = st.text(st.characters())
any_leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    any_text,
    st.binary(),
    st.datetimes(),
    st.uuids(),
    st.decimals(),
    st.builds(Hostile),
    st.builds(Lying, a=st.just(1)),
    st.builds(object),
    st.sampled_from(["\0", "\ud800", "x" * 20_000, "\x01" * 20_000, "\U000e0001" * 20_000, "ü" * 20_000]),
    st.builds(pow, st.just(10), st.just(5_000)),
)
any_key = st.one_of(any_text, st.integers(), st.none(), st.binary(), st.tuples(st.integers()))
any_value = st.recursive(
    any_leaf,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(any_key, inner), st.frozensets(any_key)
    ),
    max_leaves=30,
)
any_values = st.dictionaries(any_text.filter(lambda key: key not in ("event", "self")), any_value)


@given(any_text, any_values)
def test_any_line_is_json_and_within_its_length(event: str, values: dict[str, object]) -> None:
    line = capture_line(lambda log: log.info(event, **values))
    assert list(line)[:4] == ["ts", "level", "event", "logger"]
    assert line["level"] == "info"
    assert not re.search("[\0\ud800-\udfff]", json.dumps(line, ensure_ascii=False))


@hypothesis.settings(max_examples=30)
@given(any_text, any_values)
def test_any_pretty_line_is_within_its_length(event: str, values: dict[str, object]) -> None:
    text = capture(lambda log: log.info(event, **values), "pretty")
    assert "log.render_failed" not in text
    assert 0 < len(text.encode()) <= MAX_LINE_LENGTH
    assert len(text.splitlines()) == 1


@given(any_text, any_value)
def test_any_line_of_a_library_is_json_and_within_its_length(event: str, value: object) -> None:
    library = logging.getLogger("other")
    assert capture_line(lambda _: library.info(event, value, extra={"value": value}))["logger"] == "other"


@hypothesis.settings(max_examples=50)
@given(any_text, any_value)
@pytest.mark.parametrize("form", FORMS)
def test_any_exception_can_be_logged(form: Form, message: str, value: object) -> None:
    error = raised(ValueError(message, value))
    error.add_note(message)
    text = capture(lambda log: log.error("failed", exc_info=error), form)
    assert len(text.encode()) <= MAX_LINE_LENGTH
    assert "ValueError" in text
