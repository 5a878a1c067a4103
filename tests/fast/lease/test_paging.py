"""Places in a long list: what was given is read back, and everything else is refused."""

import base64
import json
from datetime import UTC, datetime

import pytest

from duly.errors import InvalidArgument
from duly.paging import place_of, read_place

AT = datetime(2026, 1, 1, tzinfo=UTC)


def place(*key: object) -> str:
    """A place as a stranger writes one, with whatever JSON can say."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("text", ["x", "", "å\n", "🏠", "\x01"])
def test_a_place_is_read_as_it_was_given(text: str) -> None:
    assert read_place(place_of(AT, text), datetime.fromisoformat, str) == (AT, text)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfff", "\udc00\ud800"])
def test_a_text_that_postgresql_cannot_hold_is_no_place(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no place in the list"):
        read_place(place(AT.isoformat(), text), datetime.fromisoformat, str)


def test_a_lone_surrogate_is_refused_whoever_let_it_through() -> None:
    with pytest.raises(InvalidArgument, match="no place in the list"):
        read_place(place("x"), lambda _: "\ud800")
