"""Copy values of any type into plain JSON: secrets masked, texts truncated, the size bounded."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any, cast
from uuid import UUID

MAX_TRACE_LENGTH = 8_192  # characters, as the limits below
MAX_TEXT_LENGTH = 4_096
MAX_KEY_LENGTH = 100
MAX_READ_LENGTH = 262_144  # of a text before masking, which takes time in proportion
MAX_DEPTH = 6
TRUNCATED = "…"
MASK = "***"

SECRET_WORD = "(?:password|passwd|secret|token|authorization|api[_-]?key|dsn|cookie)"  # noqa: S105 (not a secret)
SECRET_NAME = re.compile(SECRET_WORD, re.IGNORECASE)
API_KEY = re.compile(r"(duly_[a-z0-9]{12}_)[A-Za-z0-9_-]+")
BOT_TOKEN = re.compile(r"(\d{1,20}:)[A-Za-z0-9_-]{30,}")  # of Telegram; part of every URL of its Bot API
URL = re.compile(r"(postgres(?:ql)?(?:\+\w{1,32})?)?://(\S*)", re.ASCII | re.IGNORECASE)
ASSIGNMENT = re.compile(  # password=x, password = 'x', and 'password': 'x' inside a repr, where backslashes are doubled
    rf"""({SECRET_WORD}\w{{0,32}}(?:\s{{0,32}}=|\\*['"]\s{{0,32}}:)\s{{0,32}})"""
    r"""(?:\w{0,2}\\*'(?:[^'\\]|\\+.)*'?|\w{0,2}\\*"(?:[^"\\]|\\+.)*"?|\S+)""",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)
UNENCODABLE = re.compile("[\0\ud800-\udfff]")

Json = dict[str, Any]


class Trace(str):
    """A formatted traceback: passed as `trace=`, it becomes the trace of its line."""

    __slots__ = ()


class Redactor:
    """Copies values into plain JSON with secrets masked, until a budget of characters is spent."""

    def __init__(self, budget: int) -> None:
        self.left = budget

    def mapping(self, values: Mapping[Any, Any], depth: int = 0) -> Json:
        """Copy an object; values with a secret name are masked, and those beyond the budget left out."""
        copy: Json = {}
        for key, value in self.affordable(values.items(), (TRUNCATED, TRUNCATED)):
            name = to_text(key)
            self.left -= 4  # two quotes, a colon and a comma
            short = self.text(name, MAX_KEY_LENGTH)
            copy[short] = MASK if SECRET_NAME.search(name) else self.value(value, depth + 1)
        return copy

    def value(self, value: Any, depth: int) -> Any:
        """Copy any value; one that JSON does not have becomes text."""
        self.left -= 3  # two quotes or brackets and a comma
        try:
            match value:
                case None | bool():
                    return value
                case int() if -(2**63) <= value < 2**63:
                    return int(value)
                case float() if math.isfinite(value):
                    return float(value)
                case dict() | list() | tuple() | set() | frozenset() if depth > MAX_DEPTH:
                    return TRUNCATED
                case dict():
                    return self.mapping(cast("Json", value), depth)
                case list() | tuple() | set() | frozenset():
                    return [self.value(item, depth + 1) for item in self.affordable(cast("Iterable[Any]", value))]
                case Trace():
                    return self.text(value, MAX_TRACE_LENGTH)
                case _:
                    return self.text(to_text(value), MAX_TEXT_LENGTH)
        except Exception:
            return self.text(describe_unprintable(cast("object", value)), MAX_KEY_LENGTH)

    def affordable(self, items: Iterable[Any], mark: Any = TRUNCATED) -> Iterator[Any]:
        """Yield items until the budget is spent, then a mark."""
        for item in items:
            if self.left <= 0:
                yield mark
                return
            yield item

    def text(self, text: str, max_length: int) -> str:
        """Copy a text and truncate it, to half of the budget left: at its end, or in its middle if it is a trace."""
        clean = UNENCODABLE.sub("\N{REPLACEMENT CHARACTER}", masked(text))
        room = max(0, min(max_length, self.left // 2))
        if len(clean) > room:
            is_trace = max_length == MAX_TRACE_LENGTH
            mark, tail = (f"\n{TRUNCATED}\n", room - room // 4) if is_trace else (TRUNCATED, 0)
            clean = clean[: room - tail] + mark + clean[len(clean) - tail :]
        self.left -= len(clean)
        return clean


def to_text(value: Any, convert: Callable[[Any], str] = repr) -> str:
    """Convert a value to text, by its usual form if it has one; never raises."""
    try:
        match value:
            case date() | time():
                return value.isoformat()
            case str():
                return str.__str__(value)
            case UUID() | PurePath() | Decimal() | timedelta():
                return str(value)
            case bytes() | bytearray():
                return repr(bytes(value[:MAX_READ_LENGTH]))
            case _:
                return str.__str__(convert(value))
    except Exception:
        return describe_unprintable(value)


def describe_unprintable(value: object) -> str:
    """Describe a value whose conversion to text failed."""
    return f"<unprintable {type(value).__name__}>"


def masked(text: str) -> str:
    """Replace passwords, tokens and keys in a text by `***`; a very long text is truncated first."""
    if len(text) > MAX_READ_LENGTH:
        text = text[:MAX_READ_LENGTH] + "@"  # ends a password in a URL, if the truncation went through one
    if "://" in text:
        text = URL.sub(mask_password, text)
    if ":" in text:
        text = BOT_TOKEN.sub(rf"\1{MASK}", text)
    if "=" in text or ":" in text:
        text = ASSIGNMENT.sub(rf"\1{MASK}", text)
    return API_KEY.sub(rf"\1{MASK}", text) if "duly_" in text else text


def mask_password(url: re.Match[str]) -> str:
    """Mask the password of a URL; PostgreSQL's may contain a bare @ or /, so it ends at the last @."""
    scheme, rest = url[1], url[2]
    end = (rest if scheme else re.split(r"[/?#]", rest, maxsplit=1)[0]).rfind("@")
    colon = rest.find(":", 0, max(end, 0))
    return url[0] if colon < 0 else f"{scheme or ''}://{rest[:colon]}:{MASK}{rest[end:]}"
