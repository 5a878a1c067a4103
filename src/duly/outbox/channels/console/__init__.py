"""The console: messages appear where the worker runs, with the command that answers each of their buttons."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from duly.formatting import as_called
from duly.outbox.channel import Message, WhenUncertain

__all__ = ["Console"]


class Console:
    """Prints messages; needs no account, so everything works on a first day."""

    name = "console"
    when_uncertain = WhenUncertain.RESEND

    def __init__(self, out: TextIO | None = None) -> None:
        self.out = out or sys.stdout

    async def send(self, message: Message) -> str | None:
        """Print it, whole, in one write."""
        self.out.write(shown(message))
        self.out.flush()
        return None

    async def close(self) -> None:
        """There is nothing to let go of."""


def shown(message: Message) -> str:
    """A message as people read it."""
    head = f"--- to {message.recipient} ({message.kind}, {message.id})"
    lines = [head, *(f"    {line}" for line in printable(message.text).splitlines())]
    run = message.payload.get("run")
    if isinstance(run, int):
        buttons: Sequence[Mapping[str, Any]] = message.payload.get("buttons", ())
        lines.extend(f"    [{printable(str(each['label']))}]  {command_of(run, each)}" for each in buttons)
    return "\n".join(lines) + "\n"


def command_of(run: int, button: Mapping[str, Any]) -> str:
    """The command that answers as this button does."""
    minutes = button.get("payload", {}).get("minutes")
    asked = as_called(f"duly schedule answer {run} {button['action']} --key {button['key']}")
    return f"{asked} --minutes {minutes}" if minutes else asked


def printable(text: str) -> str:
    """The text without what would steer a terminal."""
    return "".join(each if each.isprintable() or each == "\n" else "\N{REPLACEMENT CHARACTER}" for each in text)
