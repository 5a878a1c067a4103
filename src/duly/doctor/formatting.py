"""Formatting for findings: queries and errors."""

import re

import psycopg

MAX_QUERY_LENGTH = 60
HIDDEN_QUERY = "<insufficient privilege>"  # what PostgreSQL shows for a query that a login may not read
COMMENT = re.compile(r"/\*.*?(\*/|\Z)|--[^\n]*", re.DOTALL)
LITERAL = re.compile(r"'|\$(?!\d)|(?<![\w$.])[\d.]*\d")  # the beginning of a text, or of a number outside of names


def summarize_query(query: str | None) -> str:
    """Return the beginning of a query up to its first literal, since literals may be private."""
    if query is None or query == HIDDEN_QUERY:
        return "hidden"
    text = COMMENT.sub(" ", query)
    literal = LITERAL.search(text)
    beginning = " ".join(text[: literal.start() if literal else None].split())
    short = beginning if len(beginning) <= MAX_QUERY_LENGTH else beginning[: MAX_QUERY_LENGTH + 1].rpartition(" ")[0]
    return f"{short} ...".strip() if literal or short != beginning else beginning or "nothing yet"


def error_reason(error: Exception) -> str:
    """Return the message of an error in one line."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split()) or "no response in time"
