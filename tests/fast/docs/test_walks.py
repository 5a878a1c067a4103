"""The walks through the code: every file and every name on the page is there, and no walk grows over its limit."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from duly.launcher import ROOT

PAGE = ROOT / "docs" / "walks.md"
SOURCES = ROOT / "src" / "duly"
HEADING = re.compile(r"^## (?P<title>.+) \((?P<files>\d+) files of at most (?P<limit>\d+)\)$", re.MULTILINE)
STEP = re.compile(r"^- `(?P<file>[\w/.]+)`: (?P<names>`.+`)$", re.MULTILINE)
LIMITS = {"A job": 15, "A post": 25, "A reminder": 30, "A capture": 40}  # files that a reader opens


@dataclass(frozen=True)
class Walk:
    """One walk of the page: the number of files that its heading names, and its steps."""

    files: int
    limit: int
    steps: Sequence[tuple[str, Sequence[str]]]


def read_walks() -> Mapping[str, Walk]:
    """Read the walks of the page by their titles."""
    text = PAGE.read_text("utf-8")
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    return {
        heading["title"]: Walk(
            int(heading["files"]), int(heading["limit"]), list(read_steps(text[heading.end() : end]))
        )
        for heading, end in zip(headings, ends, strict=True)
    }


def read_steps(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the file and the names of each step."""
    for step in STEP.finditer(text):
        yield step["file"], re.findall(r"`([\w.]+)`", step["names"])


def test_every_file_and_name_of_a_walk_exists() -> None:
    steps = [step for walk in read_walks().values() for step in walk.steps]
    assert len(steps) > 80
    offenders = [f"{file}: no {name}" for file, names in steps for name in names if not defines(file, name)]
    assert not offenders, "\n".join(offenders)


def defines(file: str, name: str) -> bool:
    """Does a source file define a function, class, constant or statement of this name?"""
    path = SOURCES / file
    text = path.read_text("utf-8") if path.exists() else ""
    last = re.escape(name.rpartition(".")[2])
    defined = rf"^\s*(?:async )?(?:def|class) {last}\b|^{last}\b.* = "
    in_sql = rf'^-- name: {last}$|^create or replace function [\w{{}}."]*\b{last}"?\('
    return re.search(in_sql if path.suffix == ".sql" else defined, text, re.MULTILINE) is not None


def test_every_walk_keeps_to_its_limit() -> None:
    walks = read_walks()
    assert {title: walk.limit for title, walk in walks.items()} == LIMITS
    counted = {title: len({file for file, _ in walk.steps}) for title, walk in walks.items()}
    assert counted == {title: walk.files for title, walk in walks.items()}
    assert [title for title, files in counted.items() if files > LIMITS[title]] == []
