"""SQL lives in `.sql` files beside its caller: this reads one file into named statements.

    -- name: append_reminder
    -- One row per message we tried to send; the unique (run, nth) makes a second sender lose.
    insert into ...

gives `SQL = load_queries(__file__)` the attribute `SQL.append_reminder`. The comment under the name states the law.
Values are always parameters (`%(run)s`); a name that differs between installations stands in braces (`{schema}`) and is
filled in, quoted, by `SQL.using(schema="...")`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString, cast

from psycopg import sql

__all__ = ["Queries", "load_queries", "parse_queries"]

HEADING = re.compile(r"^-- name: ([a-z][a-z0-9_]*)\s*$", re.MULTILINE)
PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Queries:
    """The statements of one file, each an attribute of this object."""

    statements: Mapping[str, str]
    names: Mapping[str, str]

    def __getattr__(self, name: str) -> sql.SQL:
        try:
            statement = self.statements[name]
        except KeyError:
            raise AttributeError(f"no statement '-- name: {name}' in this file") from None
        # The text comes from a file of ours, never from a caller: that is what LiteralString is meant to prove.
        return sql.SQL(cast("LiteralString", PLACE.sub(self._fill, statement)))

    def _fill(self, place: re.Match[str]) -> str:
        name = place[1]
        return sql.Identifier(self.names[name]).as_string(None) if name in self.names else place[0]

    def using(self, **names: str) -> "Queries":
        """The same statements with names filled into their braces."""
        return Queries(self.statements, {**self.names, **names})


def load_queries(module_file: str, name: str = "queries.sql") -> Queries:
    """The statements of the `.sql` file that lies beside a module."""
    return Queries(parse_queries(Path(module_file).with_name(name).read_text()), {})


def parse_queries(text: str) -> dict[str, str]:
    """Name and text of every statement; two of one name, or one without a law, are refused."""
    found: dict[str, str] = {}
    headings = list(HEADING.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)][: len(headings)]
    for heading, end in zip(headings, ends, strict=True):
        name, body = heading[1], text[heading.end() : end].strip()
        if name in found:
            raise ValueError(f"two statements are called {name}")
        if not body.startswith("-- "):
            raise ValueError(f"the statement {name} does not state its law in a comment")
        found[name] = body.rstrip(";")
    return found
