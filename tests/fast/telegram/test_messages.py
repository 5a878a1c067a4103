"""Messages to people: every table has all keys in all languages, with the same placeholders."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import cast

import duly
from duly.telegram.messages import MESSAGES

PACKAGE = Path(duly.__file__).parent
LANGUAGES = {"en", "sv", "zh"}
KEY = re.compile(r"[a-z]+(_[a-z]+)*")

Messages = Mapping[str, Mapping[str, str]]


def find_tables() -> Iterator[tuple[str, Messages]]:
    """Find every table of messages by language, with its name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if '"zh": {' in path.read_text():
            module = ".".join(("duly", *path.relative_to(PACKAGE).with_suffix("").parts))
            for name, value in vars(import_module(module)).items():
                if isinstance(value, Mapping) and "zh" in (table := cast("Messages", value)):
                    yield f"{module}.{name}", table


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders of a text."""
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def find_differences(name: str, table: Messages) -> Iterator[str]:
    """List where the languages of a table differ: in the languages themselves, their keys, or their placeholders."""
    if set(table) != LANGUAGES:
        yield f"{name}: has {sorted(table)}, expected {sorted(LANGUAGES)}"
    english = table.get("en", {})
    for language, messages in table.items():
        for key in sorted(messages.keys() ^ english.keys()):
            yield f"{name}: {key!r} is in only one of {language} and en"
        for key in messages.keys() & english.keys():
            if (found := placeholders(messages[key])) != (expected := placeholders(english[key])):
                yield f"{name}: {key!r} has placeholders {found} in {language}, {expected} in en"


def test_message_tables_have_the_same_keys_and_placeholders_per_language() -> None:
    tables = list(find_tables())
    offenders = [difference for name, table in tables for difference in find_differences(name, table)]
    assert not offenders, "\n".join(offenders)
    assert len(tables) >= 3


def test_message_keys_of_the_bot_are_plain_names() -> None:
    offenders = [key for key in MESSAGES["en"] if not KEY.fullmatch(key)]
    assert not offenders, "\n".join(offenders)
