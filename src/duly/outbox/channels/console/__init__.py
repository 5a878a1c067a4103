"""The console channel: prints messages on the worker's stdout, with the command that answers each button."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from duly.formatting import rewrite_commands
from duly.outbox.channel import OutboundMessage, UncertainPolicy


class ConsoleChannel:
    """Prints messages; needs no account, so it works without any configuration."""

    name = "console"
    uncertain_policy = UncertainPolicy.RESEND

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout

    async def send(self, message: OutboundMessage) -> str | None:
        """Print a message in one write."""
        self.out.write(format_message(message))
        self.out.flush()
        return None

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def format_message(message: OutboundMessage) -> str:
    """Format a message with its buttons as commands."""
    head = f"--- to {message.recipient} ({message.kind}, {message.id})"
    lines = [head, *(f"    {line}" for line in to_printable(message.text).splitlines())]
    run = message.payload.get("job_run_id")
    if isinstance(run, int):
        buttons: Sequence[Mapping[str, Any]] = message.payload.get("buttons", ())
        lines.extend(f"    [{to_printable(str(each['label']))}]  {answer_command(run, each)}" for each in buttons)
    return "\n".join(lines) + "\n"


def answer_command(run: int, button: Mapping[str, Any]) -> str:
    """Return the shell command that does what a button does."""
    minutes = button.get("payload", {}).get("minutes")
    command = rewrite_commands(f"duly schedule answer {run} {button['action']} --key {button['key']}")
    return f"{command} --minutes {minutes}" if minutes else command


def to_printable(text: str) -> str:
    """Replace characters that would control the terminal."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text)
