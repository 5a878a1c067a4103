"""What is said to people: everything in every language, with the same gaps to fill."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import Any, cast

import pytest

import duly
from duly.scheduler.receipt import WORDS as RECEIPTS

HOUSE = Path(duly.__file__).parent
LANGUAGES = {"en", "sv", "zh"}
REASON = re.compile(r"then '(missed: [^']+)'|cancel_open\(new\.id, '([^']+)'\)|WAS_PAUSED = \"([^\"]+)\"")


def tables() -> Iterator[Any]:
    """Every table of words by language that there is."""
    for path in sorted(HOUSE.rglob("*.py")):
        if '"zh": {' in path.read_text():
            name = ".".join(("duly", *path.relative_to(HOUSE).with_suffix("").parts))
            for each, found in vars(import_module(name)).items():
                if isinstance(found, Mapping) and "zh" in (table := cast("Mapping[str, Any]", found)):
                    yield pytest.param(table, id=f"{name}.{each}")


def gaps_of(words: str) -> set[str | None]:
    """What is filled in."""
    return {name for _, name, _, _ in Formatter().parse(words) if name}


@pytest.mark.parametrize("table", list(tables()))
def test_every_table_of_words_says_the_same_in_every_language(table: Mapping[str, Mapping[str, str]]) -> None:
    assert set(table) == LANGUAGES
    for language, words in table.items():
        assert words.keys() == table["en"].keys(), language
        for name, said in words.items():
            assert gaps_of(said) == gaps_of(table["en"][name]), (language, name)


def test_there_are_tables_of_words() -> None:
    assert len(list(tables())) >= 5


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_reason_that_ends_a_run_has_its_words(language: str) -> None:
    places = ("scheduler/queries.sql", "scheduler/work.py", "db/migrations/sql/0006_scheduler.up.sql")
    found = [REASON.findall((HOUSE / place).read_text()) for place in places]
    assert [len(each) for each in found] == [3, 1, 1]
    for reasons in found:
        for reason in map("".join, reasons):
            assert reason in RECEIPTS[language], reason
