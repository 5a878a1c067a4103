"""Print the story: sentences, quoted output, and the commands that show the same."""

import json
import textwrap
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

WIDTH = 100


class Narrator(Protocol):
    """Prints the story."""

    def begin(self, *sentences: str) -> None:
        """Print the introduction."""
        ...

    def chapter(self, number: int, title: str) -> None:
        """Print the title of a chapter."""
        ...

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        ...

    def quote(self, text: str) -> None:
        """Quote a text word for word."""
        ...

    def command(self, *arguments: str) -> None:
        """Print the command of duly that shows it."""
        ...


class ConsoleNarrator:
    """Prints for people, in colours on a terminal."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.console = Console(highlight=False, soft_wrap=True)

    def begin(self, *sentences: str) -> None:
        """Print the introduction."""
        for sentence in sentences:
            self.lines(textwrap.wrap(sentence, WIDTH))

    def chapter(self, number: int, title: str) -> None:
        """Print the title of a chapter."""
        self.lines(["", f"{number}. {title}", ""], "bold")

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self.lines(textwrap.wrap(sentence, WIDTH, initial_indent="   ", subsequent_indent="   "))

    def quote(self, text: str) -> None:
        """Quote a text word for word."""
        self.lines([f"     | {line}" for line in text.splitlines()], "dim")

    def command(self, *arguments: str) -> None:
        """Print the command of duly that shows it."""
        self.lines([f"     $ {' '.join((self.prefix, *arguments))}"], "cyan")

    def lines(self, lines: Sequence[str], style: str = "") -> None:
        """Print several lines."""
        self.console.print(Text("\n".join(lines), style=style))


class JsonNarrator:
    """Prints for programs: one line of JSON per event."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def begin(self, *sentences: str) -> None:
        """Print the introduction."""
        self.write(begins=" ".join(sentences))

    def chapter(self, number: int, title: str) -> None:
        """Print the title of a chapter."""
        self.write(chapter=number, title=title)

    def say(self, sentence: str) -> None:
        """Print a sentence."""
        self.write(says=sentence)

    def quote(self, text: str) -> None:
        """Quote a text word for word."""
        self.write(quotes=text)

    def command(self, *arguments: str) -> None:
        """Print the command of duly that shows it."""
        self.write(command=" ".join((self.prefix, *arguments)))

    def write(self, **fields: object) -> None:
        """Print a line of JSON."""
        print(json.dumps(fields, ensure_ascii=False), flush=True)


def make_narrator(prefix: str, *, as_json: bool) -> Narrator:
    """Return the narrator for people or programs; commands start with the prefix that selects the demo database."""
    return JsonNarrator(prefix) if as_json else ConsoleNarrator(prefix)
