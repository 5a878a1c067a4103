"""The catalogue of texts: every language has every key with the same placeholders, and every reason has a text."""

import re
from importlib.resources import files
from string import Formatter

import pytest

from duly.apps.scheduler.messages import DEFAULT_LANGUAGE, MESSAGES, translate
from duly.apps.scheduler.model import Action
from duly.apps.scheduler.reasons import ClosingReason, describe_reason
from duly.apps.scheduler.reminder import CHOICES

LANGUAGES = {"en", "sv", "zh"}
STORED_BY_SQL = re.compile(r"(?:then|concat_ws\('; ',|cancel_open_runs\([\w.]+,|withdraw_runs\(new\.id,) '([A-Z_]+)'")


def placeholders(text: str) -> set[str]:
    """Return the names that a text is formatted with."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_language_has_every_key_with_the_same_placeholders() -> None:
    assert set(MESSAGES) == LANGUAGES
    expected = {key: placeholders(text) for key, text in MESSAGES[DEFAULT_LANGUAGE].items()}
    for language, texts in MESSAGES.items():
        assert {key: placeholders(text) for key, text in texts.items()} == expected, language


def test_every_action_and_closing_reason_has_its_texts() -> None:
    expected = {
        f"{part}.{action}" for part in ("receipt", "page.button", "page.confirm", "page.result") for action in Action
    }
    expected |= {f"reason.{reason}" for reason in ClosingReason}
    expected |= {f"button.{action}" + (f"_{minutes}" if minutes else "") for action, minutes in CHOICES}
    assert expected <= MESSAGES[DEFAULT_LANGUAGE].keys()


def test_every_reason_that_sql_stores_is_a_code() -> None:
    stored = STORED_BY_SQL.findall(files("duly").joinpath("apps/scheduler/functions.sql").read_text("utf-8"))
    assert len(stored) == 7
    assert set(stored) <= set(ClosingReason)


def test_a_stored_reason_is_described_and_its_note_kept() -> None:
    assert describe_reason("SUPERSEDED; period key 2026-11") == "missed: a later one is due; period key 2026-11"
    assert describe_reason(None) == describe_reason("") == "it was closed"
    assert describe_reason("by hand") == "by hand"


def test_unsupported_language_falls_back_to_english_and_unknown_key_raises() -> None:
    assert translate("de", "reminder.due", at="10:00", zone="UTC") == "Due 10:00 (UTC)"
    with pytest.raises(KeyError):
        translate("en", "no.such.key")
