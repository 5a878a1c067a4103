"""The page of guarantees names tests and invariants that are there, and README leads to it."""

import re
from pathlib import Path

import pytest

from duly.launcher import ROOT
from duly.verify import INVARIANTS

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
QUOTED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", PAGE)))
TABLE_ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and " attacked by " not in line]


@pytest.mark.parametrize(("file", "name"), QUOTED, ids=["::".join(filter(None, each)) for each in QUOTED])
def test_every_test_on_the_page_is_there(file: str, name: str) -> None:
    text = (ROOT / file).read_text()
    assert not name or re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)


def test_the_invariants_on_the_page_are_those_that_verify_asks() -> None:
    quoted = {name for row in TABLE_ROWS for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row[-1])}
    asked = {each.name for each in INVARIANTS}
    assert quoted - asked == set(), "verify asks no such thing"
    assert asked - quoted == set(), "which promise does it look after? the page does not say"


def test_every_sentence_is_attacked() -> None:
    sentences = [row for row in TABLE_ROWS if not row[0].startswith("|--")]
    assert len(sentences) > 30
    assert [row[0] for row in sentences if "`tests/" not in row[1]] == []


def test_the_five_promises_each_have_their_part() -> None:
    assert [int(number) for number in re.findall(r"^## (\d)\. ", PAGE, re.MULTILINE)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("page", ["guarantees.md", "limits.md", "figures/README.md"])
def test_the_readme_leads_to_the_proof(page: str) -> None:
    assert f"(docs/{page})" in Path(ROOT / "README.md").read_text()
