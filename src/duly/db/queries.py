"""Load the named SQL statements of a `.sql` file beside its caller.

    -- name: append_reminder
    -- One row per message we tried to send; the unique (run, nth) makes a second sender lose.
    insert into ...

gives `SQL = load_queries(__file__)` the attribute `SQL.append_reminder`. The comment under the name states the rule.
Values are always parameters (`%(run)s`); an identifier that differs between installations stands in braces (`{schema}`)
and is filled in, quoted, by `SQL.using(schema="...")`. A value that the planner must see, to use a partial index, is
filled in as a literal: `SQL.using(pending=sql.Literal("pending"))`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString, cast

from psycopg import sql

HEADING = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\s*$", re.MULTILINE)
IDENTIFIER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Queries:
    """The statements of one file, each an attribute of this object."""

    statements: Mapping[str, str]
    names: Mapping[str, str | sql.Literal]

    def __getattr__(self, name: str) -> sql.SQL:
        try:
            statement = self.statements[name]
        except KeyError:
            raise AttributeError(f"no statement '-- name: {name}' in this file") from None
        # The text comes from a file of this package, never from a caller, which LiteralString is meant to prove.
        filled = sql.SQL(cast("LiteralString", IDENTIFIER.sub(self._fill, statement)))
        self.__dict__[name] = filled  # so that the next access finds it
        return filled

    def __contains__(self, name: str) -> bool:
        return name in self.statements

    def _fill(self, match: re.Match[str]) -> str:
        if match[1] not in self.names:
            return match[0]
        filled = self.names[match[1]]
        return (sql.Identifier(filled) if isinstance(filled, str) else filled).as_string(None)

    def using(self, **names: str | sql.Literal) -> "Queries":
        """Return the same statements with identifiers, given as text, and literals filled in."""
        return Queries(self.statements, {**self.names, **names})


def load_queries(module_file: str, name: str = "queries.sql") -> Queries:
    """Load the statements of the `.sql` file beside a module."""
    return Queries(parse_queries(Path(module_file).with_name(name).read_text()), {})


def parse_queries(text: str) -> dict[str, str]:
    """Parse a file into statements by name; ValueError for a duplicate name, or a statement without a comment."""
    found: dict[str, str] = {}
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)][: len(headings)]
    for heading, end in zip(headings, ends, strict=True):
        name, body = heading[1], text[heading.end() : end].strip()
        if name in found:
            raise ValueError(f"two statements are named {name}")
        if not body.startswith("-- "):
            raise ValueError(f"the statement {name} does not state its rule in a comment")
        found[name] = body.rstrip(";")
    return found
