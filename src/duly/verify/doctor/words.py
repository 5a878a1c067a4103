"""How the doctor says things: names as SQL reads them, lengths of time for people, errors in one line."""

import re

import psycopg
from psycopg import sql

__all__ = ["quoted", "reason_of", "span"]


def quoted(name: str) -> str:
    """A name as SQL reads it; one of several words is no word of SQL's own, and needs no quotes."""
    return name if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", name) else sql.Identifier(name).as_string(None)


def span(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def reason_of(error: Exception) -> str:
    """What happened, in one line."""
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((primary or str(error)).split()) or "no answer in time"
