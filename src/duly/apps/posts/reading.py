"""The reading of a post: mood, matching music and reasoning; or the reason why it failed.

    Analyzer.read(caption, photo) --> Reading                stored as `ai`
                                  +-> ReadingFailed(code)    the code is stored as `aiError`, and `ai` is a fallback

A Reading validates itself, so that every one can be stored, whichever analyzer made it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from duly.errors import InvalidArgument
from duly.outcomes import clean_text

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
    """The mood of a post, the music, the reasoning, and the analyzer that found them."""

    mood: str
    music: str
    reasoning: str
    provider: str
    version: str

    def __post_init__(self) -> None:
        if self.mood not in set(Mood):
            raise InvalidArgument(f"mood {clean_text(self.mood, 40)!a}: must be one of {', '.join(Mood)}")
        object.__setattr__(self, "mood", str(self.mood))
        for name, max_length in MAX_LENGTHS.items():
            object.__setattr__(self, name, one_line(getattr(self, name), max_length))

    def document(self) -> dict[str, str]:
        """Return the contract's `ai` map."""
        return {
            "mood": self.mood,
            "music": self.music,
            "reasoning": self.reasoning,
            "provider": self.provider,
            "version": self.version,
        }


MAX_LENGTHS = {
    "music": MAX_MUSIC_LENGTH,
    "reasoning": MAX_REASONING_LENGTH,
    "provider": MAX_NAME_LENGTH,
    "version": MAX_NAME_LENGTH,
}


def one_line(text: str, max_length: int) -> str:
    """Return a text without line breaks, truncated to a length."""
    return clean_text(" ".join(text[: 2 * max_length].split()), max_length)


class ReadingFailed(Exception):
    """A post could not be read as intended; `reading` is a partial result, if there is one."""

    def __init__(self, code: str, message: str, reading: Reading | None = None) -> None:
        assert CODE.fullmatch(code), f"{code!a} is not an error code"
        super().__init__(clean_text(message))
        self.code = code
        self.reading = reading

    @property
    def message(self) -> str:
        """The reason, as text."""
        return str(self)


class Analyzer(Protocol):
    """Reads posts."""

    name: str

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """Read a post with or without a photo; raises ReadingFailed."""
        ...


def to_ai_error(error: BaseException | str) -> str:
    """Convert an exception or an error code to the contract's `aiError`."""
    match error:
        case ReadingFailed():
            return error.code
        case TimeoutError() | "TIMEOUT":
            return "AI_TIMEOUT"
        case _:
            return "AI_FAILED"
