"""How the doctor says things: names as SQL reads them, lengths of time for people, errors in one line."""

import re

import psycopg
from psycopg import sql

__all__ = ["first_words", "quoted", "reason_of", "span"]

MAX_WORDS_LENGTH = 60
HIDDEN = "<insufficient privilege>"  # what PostgreSQL says of a query that a login may not read
COMMENT = re.compile(r"/\*.*?(\*/|\Z)|--[^\n]*", re.DOTALL)
VALUE = re.compile(r"'|\$(?!\d)|(?<![\w$.])[\d.]*\d")  # where a text, or a number that is no name's, begins


def quoted(name: str) -> str:
    """A name as SQL reads it; one of several words is no word of SQL's own, and needs no quotes."""
    return name if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", name) else sql.Identifier(name).as_string(None)


def span(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def first_words(query: str | None) -> str:
    """How a query begins, as far as its first value: those are somebody's, and none of ours to tell."""
    if query is None or query == HIDDEN:
        return "hidden"
    text = COMMENT.sub(" ", query)
    value = VALUE.search(text)
    words = " ".join(text[: value.start() if value else None].split())
    short = words if len(words) <= MAX_WORDS_LENGTH else words[: MAX_WORDS_LENGTH + 1].rpartition(" ")[0]
    return f"{short} ...".strip() if value or short != words else words or "nothing yet"


def reason_of(error: Exception) -> str:
    """What happened, in one line."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split()) or "no answer in time"
