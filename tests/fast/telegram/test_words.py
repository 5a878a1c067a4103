"""What is said to people: everything in every language, with the same gaps to fill."""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from string import Formatter
from typing import cast

import duly
from duly.apps.scheduler.receipt import WORDS as RECEIPTS

HOUSE = Path(duly.__file__).parent
LANGUAGES = {"en", "sv", "zh"}
REASON = re.compile(r"then '(missed: [^']+)'|cancel_open\(new\.id, '([^']+)', 500\)|_PAUSED? = \"([^\"]+)\"")


Words = Mapping[str, Mapping[str, str]]


def tables() -> Iterator[tuple[str, Words]]:
    """Every table of words by language that there is, with its name."""
    for path in sorted(HOUSE.rglob("*.py")):
        if '"zh": {' in path.read_text():
            name = ".".join(("duly", *path.relative_to(HOUSE).with_suffix("").parts))
            for each, found in vars(import_module(name)).items():
                if isinstance(found, Mapping) and "zh" in (table := cast("Words", found)):
                    yield f"{name}.{each}", table


def gaps_of(words: str) -> set[str | None]:
    """What is filled in."""
    return {name for _, name, _, _ in Formatter().parse(words) if name}


def faults_of(name: str, table: Words) -> Iterator[str]:
    """List where a table's languages differ: in the languages themselves, their keys, or the gaps of a text."""
    if set(table) != LANGUAGES:
        yield f"{name}: has {sorted(table)}, expected {sorted(LANGUAGES)}"
    english = table.get("en", {})
    for language, words in table.items():
        for key in sorted(words.keys() ^ english.keys()):
            yield f"{name}: {key!r} is in only one of {language} and en"
        for key in words.keys() & english.keys():
            if (found := gaps_of(words[key])) != (expected := gaps_of(english[key])):
                yield f"{name}: {key!r} has gaps {found} in {language}, {expected} in en"


def test_every_table_of_words_says_the_same_in_every_language() -> None:
    offenders = [fault for name, table in tables() for fault in faults_of(name, table)]
    assert not offenders, "\n".join(offenders)


def test_there_are_tables_of_words() -> None:
    assert len(list(tables())) >= 5


def test_every_reason_that_ends_a_run_has_its_words() -> None:
    places = ("apps/scheduler/plan.py", "db/migrations/sql/0006_scheduler.up.sql")
    found = [REASON.findall((HOUSE / place).read_text()) for place in places]
    assert [len(each) for each in found] == [2, 4]
    offenders = [
        f"{reason!r}: no words in {language}"
        for reasons in found
        for reason in map("".join, reasons)
        for language in sorted(LANGUAGES)
        if reason not in RECEIPTS.get(language, ())
    ]
    assert not offenders, "\n".join(offenders)
