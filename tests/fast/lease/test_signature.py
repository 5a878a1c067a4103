"""Signatures and signed links: valid for one secret and one purpose only."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.accounts.signature import is_signature_valid, signature_for
from duly.accounts.telegram_link import create_telegram_link, parse_telegram_link
from duly.errors import InvalidArgument

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def test_signature_depends_on_secret_purpose_and_part_boundaries() -> None:
    seal = signature_for("secret", "button", 42, "a", "bc")
    assert is_signature_valid(seal, "secret", "button", 42, "a", "bc")
    for other in (("other", "button", 42, "a", "bc"), ("secret", "link", 42, "a", "bc")):
        assert not is_signature_valid(seal, *other)
    assert not is_signature_valid(seal, "secret", "button", 42, "ab", "c")
    assert not is_signature_valid(seal, "secret", "button", 43, "a", "bc")
    assert not is_signature_valid("", "secret", "button", 42, "a", "bc")


@given(st.integers(1, 2**63 - 1))
def test_telegram_link_round_trips_and_fits_the_start_parameter(person: int) -> None:
    link = create_telegram_link("secret", person, NOW)
    assert len(link) <= 64
    assert all(each.isascii() and (each.isalnum() or each in "_-") for each in link)
    assert parse_telegram_link("secret", link, NOW) == person


@given(st.text(max_size=80))
def test_any_other_text_is_not_a_valid_link(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_telegram_link("secret", text, NOW)


def test_telegram_link_expires() -> None:
    link = create_telegram_link("secret", 7, NOW, minutes=15)
    assert parse_telegram_link("secret", link, NOW + timedelta(minutes=15)) == 7
    with pytest.raises(InvalidArgument, match="expired"):
        parse_telegram_link("secret", link, NOW + timedelta(minutes=15, seconds=1))
