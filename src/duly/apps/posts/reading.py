"""The reading of a post: its mood, the music that goes with it, and why; or the reason why there is none.

    Analyzer.read(caption, photo) --> Reading            kept as `ai`
                                  +-> NoReading(code)    the code is kept as `aiError`, and `ai` says what rules could

Whatever is in a reading can be stored: checked when it is made, whoever made it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from duly.errors import InvalidArgument
from duly.outcomes import clean_text

__all__ = ["MAX_MUSIC_LENGTH", "MAX_REASONING_LENGTH", "Analyzer", "Mood", "NoReading", "Reading", "error_code_of"]

MAX_MUSIC_LENGTH = 200
MAX_REASONING_LENGTH = 1000
MAX_NAME_LENGTH = 64
CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class Mood(StrEnum):
    """The moods a post can have."""

    JOYFUL = "joyful"
    CALM = "calm"
    MELANCHOLIC = "melancholic"
    TENSE = "tense"
    NEUTRAL = "neutral"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a post feels like, in words for people, and who says so."""

    mood: str
    music: str
    reasoning: str
    provider: str
    version: str

    def __post_init__(self) -> None:
        if self.mood not in set(Mood):
            raise InvalidArgument(f"mood {clean_text(self.mood, 40)!a}: must be one of {', '.join(Mood)}")
        object.__setattr__(self, "mood", str(self.mood))
        for name, max_length in BOUNDS.items():
            object.__setattr__(self, name, one_line(getattr(self, name), max_length))

    def document(self) -> dict[str, str]:
        """The contract's `ai` map."""
        return {
            "mood": self.mood,
            "music": self.music,
            "reasoning": self.reasoning,
            "provider": self.provider,
            "version": self.version,
        }


BOUNDS = {
    "music": MAX_MUSIC_LENGTH,
    "reasoning": MAX_REASONING_LENGTH,
    "provider": MAX_NAME_LENGTH,
    "version": MAX_NAME_LENGTH,
}


def one_line(text: str, max_length: int) -> str:
    """The text without its line breaks, and short enough."""
    return clean_text(" ".join(text[: 2 * max_length].split()), max_length)


class NoReading(Exception):
    """A post could not be read; the code says why, and `reading` is what could be read all the same."""

    def __init__(self, code: str, message: str, reading: Reading | None = None) -> None:
        assert CODE.fullmatch(code), f"{code!a} is no error code"
        super().__init__(clean_text(message))
        self.code = code
        self.reading = reading

    @property
    def message(self) -> str:
        """Why, for people."""
        return str(self)


class Analyzer(Protocol):
    """Whoever can read a post."""

    name: str

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """The reading of a post with or without a photo, or NoReading."""
        ...


def error_code_of(error: BaseException | str) -> str:
    """Any failure, or the code of one, as the contract's `aiError`."""
    match error:
        case NoReading():
            return error.code
        case TimeoutError() | "TIMEOUT":
            return "AI_TIMEOUT"
        case _:
            return "AI_FAILED"
