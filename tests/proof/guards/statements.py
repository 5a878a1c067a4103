"""The list of guards in statements, generated: every owner predicate and every SKIP LOCKED, each a change of one file.

Functions that live in the database are in the `functions.sql` of their packages.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from duly.launcher import ROOT

SOURCES = ROOT / "src" / "duly"
READ_ONLY_PACKAGES = ("verify", "testing")  # these only look, and nothing is held by them
NAME = re.compile(r'^-- name: (\w+)|^create (?:or replace )?function ([\w."{}]+)', re.MULTILINE)
SKIP_LOCKED = re.compile(r" skip locked\b")
OWNERS = r"(?:\w+\.)?(?:lease_owner|locked_by|settled_by)"
OWNER = re.compile(rf"(?<=\b(?:and|AND) ){OWNERS} = (?:%\(owner\)s|\w+\.owner)\b")


@dataclass(frozen=True)
class Mutation:
    """One guard of a statement, and the text of its file with and without it."""

    kind: str
    file: str  # below the root of the checkout
    statement: str
    nth: int
    start: int
    end: int
    replacement: str

    def __str__(self) -> str:
        nth = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.kind} of {self.statement}{nth} in {self.file.removeprefix('src/duly/')}"

    def applied(self, text: str) -> str:
        """The file without this guard."""
        return text[: self.start] + self.replacement + text[self.end :]


def mutations() -> list[Mutation]:
    """Every one there is, file by file."""
    return [each for file in sorted(SOURCES.rglob("*.sql")) if is_a_source(file) for each in find_mutations(file)]


def is_a_source(file: Path) -> bool:
    """Does this file hold statements that hold anything?"""
    return file.relative_to(SOURCES).parts[0] not in READ_ONLY_PACKAGES and not file.name.endswith(".down.sql")


def find_mutations(file: Path) -> Iterator[Mutation]:
    """Every one of a file, in its order."""
    text = file.read_text()
    path = file.relative_to(ROOT).as_posix()
    names = [(found.start(), found[1] or found[2]) for found in NAME.finditer(text)]
    counted = Counter[tuple[str, str]]()
    matches = [(found, "skip locked", "") for found in SKIP_LOCKED.finditer(text)]
    matches += [(found, "owner", "true") for found in OWNER.finditer(text)]
    for found, kind, replacement in sorted(matches, key=lambda spot: spot[0].start()):
        if is_comment(text, found.start()):
            continue
        statement = [name for start, name in names if start < found.start()][-1]
        counted[kind, statement] += 1
        yield Mutation(kind, path, statement, counted[kind, statement], found.start(), found.end(), replacement)


def is_comment(text: str, at: int) -> bool:
    """Is this place in a comment?"""
    return "--" in text[text.rfind("\n", 0, at) + 1 : at]
