"""How the story is told: sentences, what was printed or said word for word, and the commands that show it."""

import json
import textwrap
from collections.abc import Sequence
from typing import Protocol

from rich.console import Console
from rich.text import Text

WIDTH = 100


class Narrator(Protocol):
    """Whoever tells the story."""

    def begin(self, *sentences: str) -> None:
        """Say what this is going to be."""
        ...

    def chapter(self, number: int, title: str) -> None:
        """Begin a chapter."""
        ...

    def say(self, sentence: str) -> None:
        """Tell what has happened."""
        ...

    def quote(self, text: str) -> None:
        """Show what was printed or said, word for word."""
        ...

    def command(self, *words: str) -> None:
        """Give the command of duly that shows it."""
        ...


class Teller:
    """Tells it to people: calm, in colours where there are any."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.console = Console(highlight=False, soft_wrap=True)

    def begin(self, *sentences: str) -> None:
        """Say what this is going to be."""
        for sentence in sentences:
            self.lines(textwrap.wrap(sentence, WIDTH))

    def chapter(self, number: int, title: str) -> None:
        """Begin a chapter."""
        self.lines(["", f"{number}. {title}", ""], "bold")

    def say(self, sentence: str) -> None:
        """Tell what has happened."""
        self.lines(textwrap.wrap(sentence, WIDTH, initial_indent="   ", subsequent_indent="   "))

    def quote(self, text: str) -> None:
        """Show what was printed or said, word for word."""
        self.lines([f"     | {line}" for line in text.splitlines()], "dim")

    def command(self, *words: str) -> None:
        """Give the command of duly that shows it."""
        self.lines([f"     $ {' '.join((self.prefix, *words))}"], "cyan")

    def lines(self, lines: Sequence[str], style: str = "") -> None:
        """Some lines, at once."""
        self.console.print(Text("\n".join(lines), style=style))


class Recorder:
    """Tells it to programs: a line of JSON for everything."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def begin(self, *sentences: str) -> None:
        """Say what this is going to be."""
        self.write(begins=" ".join(sentences))

    def chapter(self, number: int, title: str) -> None:
        """Begin a chapter."""
        self.write(chapter=number, title=title)

    def say(self, sentence: str) -> None:
        """Tell what has happened."""
        self.write(says=sentence)

    def quote(self, text: str) -> None:
        """Show what was printed or said, word for word."""
        self.write(quotes=text)

    def command(self, *words: str) -> None:
        """Give the command of duly that shows it."""
        self.write(command=" ".join((self.prefix, *words)))

    def write(self, **told: object) -> None:
        """One line."""
        print(json.dumps(told, ensure_ascii=False), flush=True)


def narrator_of(prefix: str, *, as_json: bool) -> Narrator:
    """Who tells it, to whom; every command begins with the prefix that leads it to the demo's database."""
    return Recorder(prefix) if as_json else Teller(prefix)
