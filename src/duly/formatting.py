"""Format times, durations, counts and commands for messages."""

import os
import re
import shlex
from datetime import datetime

COMMAND_VARIABLE = "DULY_COMMAND"  # how the user invoked duly; set by the launcher, or by the command itself
COMMAND_NAMES = (
    *("bench", "bot", "chaos", "check", "doctor", "expenses", "ingest", "jobs", "keys", "lock", "migrate"),
    *("notifications", "orgs", "partitions", "people", "posts", "psql", "schedule", "serve", "slo", "test", "up"),
    *("verify", "worker"),
)
COMMAND = re.compile(rf"(?<![\w./-])duly(?= (?:{'|'.join(COMMAND_NAMES)})\b)")


def format_time(at: datetime | None) -> str:
    """Format an instant to the second, with its zone."""
    assert at, "callers format only instants that are set"
    return f"{at:%Y-%m-%d %H:%M:%S %Z}"


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, for example `2 h 5 min`."""
    rest = round(seconds)
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "0 s"


def pluralize(count: int, one: str, many: str) -> str:
    """Format a count with the singular or the plural."""
    return f"1 {one}" if count == 1 else f"{count} {many}"


def rewrite_commands(text: str) -> str:
    """Replace `duly` in every command of the text by the user's own invocation: `./duly jobs`, in a checkout."""
    invocation = shlex.quote(os.environ.get(COMMAND_VARIABLE) or "duly")
    return COMMAND.sub(lambda _: invocation, text)
