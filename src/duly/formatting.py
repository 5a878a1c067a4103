"""Times, lengths of time, numbers and commands, as a sentence tells them."""

import os
import re
import shlex
from datetime import datetime

__all__ = ["COMMAND_VARIABLE", "as_called", "counted", "span", "when"]

COMMAND_VARIABLE = "DULY_COMMAND"  # how the user called us; set by the launcher, or by the command itself
NAMES = (
    *("bench", "bot", "chaos", "check", "doctor", "expenses", "ingest", "jobs", "keys", "lock", "migrate"),
    *("notifications", "orgs", "partitions", "posts", "psql", "schedule", "serve", "slo", "test", "up", "users"),
    *("verify", "worker"),
)
OURS = re.compile(rf"(?<![\w./-])duly(?= (?:{'|'.join(NAMES)})\b)")


def when(moment: datetime | None) -> str:
    """A moment to the second, with its zone."""
    assert moment, "only what is there is told"
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def span(seconds: float) -> str:
    """A length of time, of its two largest units."""
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def counted(number: int, one: str, many: str) -> str:
    """One or many."""
    return f"1 {one}" if number == 1 else f"{number} {many}"


def as_called(text: str) -> str:
    """The text with every command of ours in it as the user calls us here: `./duly jobs`, in a checkout."""
    called = shlex.quote(os.environ.get(COMMAND_VARIABLE) or "duly")
    return OURS.sub(lambda _: called, text)
