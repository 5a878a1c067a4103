"""Cursors of a list: an encoded cursor is decoded to the same key, and anything else is refused."""

import base64
import json
from datetime import UTC, datetime

import pytest

from duly.errors import InvalidArgument
from duly.paging import decode_cursor, encode_cursor

AT = datetime(2026, 1, 1, tzinfo=UTC)


def foreign_cursor(*key: object) -> str:
    """Encode a cursor that `encode_cursor` would not, from any JSON."""
    return base64.urlsafe_b64encode(json.dumps(key).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize("text", ["x", "", "å\n", "🏠", "\x01"])
def test_a_cursor_decodes_to_the_key_it_was_made_from(text: str) -> None:
    assert decode_cursor(encode_cursor(AT, text), datetime.fromisoformat, str) == (AT, text)


@pytest.mark.parametrize("text", ["\0", "a\0b", "\ud800", "a\udfff", "\udc00\ud800"])
def test_a_cursor_with_text_that_postgresql_cannot_store_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="invalid cursor"):
        decode_cursor(foreign_cursor(AT.isoformat(), text), datetime.fromisoformat, str)


def test_a_lone_surrogate_from_a_parser_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="invalid cursor"):
        decode_cursor(foreign_cursor("x"), lambda _: "\ud800")
