"""The page of guarantees names tests and invariants that are there, and README leads to it."""

import re

from duly.launcher import ROOT
from duly.verify import INVARIANTS

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
QUOTED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(test_\w+))?`", PAGE)))
TABLE_ROWS = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| ") and " attacked by " not in line]


def test_every_test_named_on_the_guarantees_page_exists() -> None:
    assert QUOTED
    texts = {file: (ROOT / file).read_text() for file, _ in QUOTED if (ROOT / file).exists()}
    offenders = [f"{file}: no such file" for file in sorted({file for file, _ in QUOTED} - texts.keys())]
    offenders += [
        f"{file}::{name}: no such test"
        for file, name in QUOTED
        if name and file in texts and not re.search(rf"^(async )?def {name}\(", texts[file], re.MULTILINE)
    ]
    assert not offenders, "\n".join(offenders)


def test_guarantees_page_lists_exactly_the_invariants_of_verify() -> None:
    quoted = {name for row in TABLE_ROWS for name in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", row[-1])}
    checked = {each.name for each in INVARIANTS}
    assert quoted - checked == set(), "verify asks no such thing"
    assert checked - quoted == set(), "which promise does it look after? the page does not say"


def test_every_guarantee_has_a_test_that_attacks_it() -> None:
    sentences = [row for row in TABLE_ROWS if not row[0].startswith("|--")]
    assert len(sentences) > 30
    assert [row[0] for row in sentences if "`tests/" not in row[1]] == []


def test_each_of_the_five_guarantees_has_a_section() -> None:
    assert [int(number) for number in re.findall(r"^## (\d)\. ", PAGE, re.MULTILINE)] == [1, 2, 3, 4, 5]


def test_readme_links_to_the_guarantees_limits_and_figures() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = ["docs/guarantees.md", "docs/limits.md", "docs/figures/README.md"]
    offenders = [f"{page}: README.md has no link to it" for page in pages if f"({page})" not in readme]
    assert not offenders, "\n".join(offenders)
