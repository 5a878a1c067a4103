"""One line for everything that is worth telling, in one shape, whoever tells it.

    get_log(name).info("claimed", kind="mail", rows=20)    --+
    uvicorn, psycopg.pool, asyncio, alembic (logging)      --+--> mask, cut, clean --> json or pretty --> stdout

A line never fails and is never longer than 16 kB: what is not JSON is told by its repr, what is too long is cut, what
cannot be shown says so. Secrets are masked first, so that a cut cannot bare half of one. A logger made before
`configure_logs` obeys it all the same; where nobody configures (duly used as a library), warnings and worse go to
stderr. docs/logs.md shows the lines.
"""

import logging
import math
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from pathlib import PurePath
from typing import Any, ClassVar, Protocol, TextIO, cast
from uuid import UUID

import orjson
import structlog

from duly.settings import Settings

__all__ = ["MAX_LINE_LENGTH", "Log", "Trace", "configure_logs", "get_log", "masked"]

MAX_LINE_LENGTH = 16_384  # bytes, the newline included
MAX_TRACE_LENGTH = 8_192  # characters, as everything below
MAX_TEXT_LENGTH = 4_096
MAX_KEY_LENGTH = 100
MAX_READ_LENGTH = 262_144  # of a text, before it is masked: nobody reads on, and masking takes time
BUDGETS = (15_600, 6_000, 2_400, 960)  # what a line may spend; an escape can cost ten bytes a character, hence the last
MAX_DEPTH = 6
CUT = "…"
MASK = "***"
WORDS = ("debug", "info", "warning", "error", "critical", "exception", "bind")
UNWANTED = ("_record", "_from_structlog", "message", "asctime", "color_message")  # on a record: notes of its formatters
PRETTY_NAMES = {"trace": "exception", "exception": "exception_", "stack": "stack_"}  # two mean much to the renderer
LOUD_LIBRARIES = ("uvicorn", "uvicorn.access", "uvicorn.error")  # they bring handlers of their own
WITH_ADDRESSES = {  # what these tell, addresses and headers, may be all that opens a service: heard from here on only
    **dict.fromkeys(("httpx2", "httpcore2", "requests", "requests_oauthlib", "oauthlib", "botocore"), logging.WARNING),
    "urllib3": logging.ERROR,  # it warns of a strange answer with the address that gave it
}

Json = dict[str, Any]
Render = Callable[[Json], str]


class Trace(str):
    """A traceback as text: given as `trace=`, it is the trace of its line, as that of an exception would be."""

    __slots__ = ()


class Log(Protocol):
    """A logger: an event in words that never vary, and what varies as values beside it."""

    def debug(self, event: str, **values: object) -> None: ...
    def info(self, event: str, **values: object) -> None: ...
    def warning(self, event: str, **values: object) -> None: ...
    def error(self, event: str, **values: object) -> None: ...
    def critical(self, event: str, **values: object) -> None: ...
    def exception(self, event: str, **values: object) -> None: ...
    def bind(self, **values: object) -> "Log": ...


def configure_logs(settings: Settings, stream: TextIO | None = None) -> None:
    """From now on write as the settings say, to stdout unless told otherwise; a second time replaces the first."""
    output = Output(stream or sys.stdout, settings.log_format)
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    setup = Setup(output, level)
    with State.lock:
        State.setup = setup
        for log in State.logs.values():
            log.obey(setup)
        structlog.configure(**setup.wiring, cache_logger_on_first_use=False)  # for handlers that ask structlog itself
        route_standard_logging(output, level)


def get_log(name: str) -> Log:
    """The logger of this name, the same for all who ask; every line of it carries the name."""
    with State.lock:
        if name not in State.logs:
            State.logs[name] = LateLog(name, State.setup)
        return cast("Log", State.logs[name])


class LateLog:
    """A logger that is told when the setup changes, so that one made at import obeys what is configured afterwards.

    structlog's own late logger either builds itself anew at every call (2.8 µs) or never obeys a second time.
    """

    def __init__(self, name: str, setup: "Setup") -> None:
        self.name = name
        self.obey(setup)

    def obey(self, setup: "Setup") -> None:
        """Take over the methods of a logger under this setup: a call below the level then costs next to nothing."""
        logger = setup.make_logger(self.name)
        self.__dict__.update({word: getattr(logger, word) for word in WORDS})

    def __reduce__(self) -> tuple[Callable[[str], Log], tuple[str]]:
        return get_log, (self.name,)  # the process that unpickles it has a setup of its own


class Steady:
    """Keeps a structlog logger from failing: a line is not worth the row that was being worked on."""

    def _proxy_to_logger(self, method_name: str, event: str | None = None, /, **values: Any) -> None:
        with suppress(Exception):  # only when there is hardly any stack or memory left
            line = cast("Any", super())._process_event(method_name, event, values)[0][0]
            cast("Any", self)._logger.write(line)


class Setup:
    """How lines are made: where they go, and from which level on."""

    def __init__(self, output: "Output", level: int) -> None:
        filtering = structlog.make_filtering_bound_logger(level)
        self.output = output
        self.wiring: dict[str, Any] = {
            "processors": [structlog.contextvars.merge_contextvars, output.line],
            "wrapper_class": type(filtering.__name__, (Steady, filtering), {}),
            "context_class": dict,
            "logger_factory": self.get_output,
        }

    def get_output(self, *_: object) -> "Output":
        """Where every logger ends, whatever structlog was asked for."""
        return self.output

    def make_logger(self, name: str) -> Any:
        """A logger of this name under this setup."""
        return self.wiring["wrapper_class"](self.output, self.wiring["processors"], {"logger": name})


class Output(logging.Handler):
    """Where lines go, whole and one at a time, from structlog and the standard library alike.

    It is a handler for the sake of its lock: reentrant, for a finaliser may log in the middle of a line, and made anew
    in a forked child, where nobody would release the old one.
    """

    def __init__(self, stream: TextIO | None, form: str) -> None:
        super().__init__()
        self.stream = stream
        pretty = form == "pretty" or (form == "auto" and is_terminal(stream))
        self.encoding = (getattr(stream, "encoding", None) or "utf-8") if pretty else "utf-8"
        self.render: Render = pretty_renderer(colors=is_terminal(stream)) if pretty else render_json
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=[structlog.contextvars.merge_contextvars, structlog.stdlib.ExtraAdder()],
                processors=[self.line],
            )
        )

    def line(self, _: object, method_name: str, event_dict: MutableMapping[str, Any]) -> str:
        """The last step of a chain: everything that was said, as one line within its bounds."""
        try:
            told = told_by(method_name, event_dict)
            lines = (self.render(fitted(told, budget)) for budget in BUDGETS)
            return next(line for line in lines if len(encoded(line, self.encoding)) < MAX_LINE_LENGTH)
        except Exception as failure:
            return self.render(fitted({**head(time.time(), method_name), "error": described(failure)}, BUDGETS[-1]))

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the standard library; one whose arguments do not fit its text is told as it is."""
        with suppress(Exception):
            try:
                record.getMessage()
            except Exception:
                plain = {"msg": shown((record.msg, record.args)), "args": None}
                record = logging.makeLogRecord({**record.__dict__, **plain})
            self.write(self.format(record))

    def write(self, line: str) -> None:
        """Write a line; when nobody reads any more, it is lost, and the work goes on."""
        stream = self.stream or sys.stderr
        with suppress(OSError, ValueError, RuntimeError):  # gone, closed, or entered again by a finaliser
            self.acquire()
            try:
                put(stream, line + "\n", self.encoding)
            finally:
                self.release()


class State:
    """The setup that holds now, and every logger that must hear of the next."""

    lock = threading.RLock()
    logs: ClassVar[dict[str, LateLog]] = {}
    setup: ClassVar[Setup]


def route_standard_logging(output: Output, level: int) -> None:
    """Let the standard library's loggers end in our output, and in ours alone of those we put there.

    Whatever the level, libraries that tell addresses do not say them there.
    """
    root = logging.getLogger()
    for earlier in [handler for handler in root.handlers if isinstance(handler, Output)]:
        root.removeHandler(earlier)
    root.addHandler(output)
    root.setLevel(level)
    for name in LOUD_LIBRARIES:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).addFilter(has_no_connection)
    for name, least in WITH_ADDRESSES.items():
        logging.getLogger(name).setLevel(max(level, least))


def has_no_connection(record: logging.LogRecord) -> bool:
    """Is this a line for people? What the driver tells of its own objects is none."""
    args = record.args if isinstance(record.args, tuple) else ()
    return not any(type(arg).__module__.startswith("psycopg") and not isinstance(arg, Exception) for arg in args)


def encoded(text: str, encoding: str) -> bytes:
    """The text in an encoding that may not have all its characters."""
    return text.encode(encoding, "backslashreplace")


def put(stream: TextIO | None, text: str, encoding: str) -> None:
    """Write and flush; as bytes where the stream has any, for its own encoding may not have all our characters."""
    if stream is None:  # a process may have been started without any
        return
    stream.flush()
    if buffer := getattr(stream, "buffer", None):
        buffer.write(encoded(text, encoding))
        buffer.flush()
    else:
        stream.write(text)
        stream.flush()


def is_terminal(stream: TextIO | None) -> bool:
    """Does a person watch?"""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def told_by(method_name: str, event_dict: Mapping[str, Any]) -> Json:
    """What a line is made of; a caller's value under a name of ours gets a `_` behind it."""
    record: logging.LogRecord | None = event_dict.get("_record")
    values = {name: value for name, value in event_dict.items() if record is None or name not in UNWANTED}
    failure = failure_of(values.pop("exc_info", None))
    at, level = (record.created, level_of(record.levelno)) if record else (time.time(), method_name)
    logger = record.name if record else values.pop("logger", "root")
    told = head(at, level, textual(values.pop("event", "")), textual(logger))
    if failure:
        told |= {"error": described(failure), "trace": trace_of(failure)}
    elif "error" in values:
        told["error"] = described(values.pop("error"))
    if failure is None and isinstance(values.get("trace", ""), Trace):
        told["trace"] = values.pop("trace")
    taken = {*told, "trace"}
    return told | {f"{name}_" if name in taken else name: value for name, value in values.items()}


def head(at: float, level: str, event: str = "a line could not be written", logger: str = __name__) -> Json:
    """The four keys that every line begins with."""
    ts = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"
    return {"ts": ts, "level": level, "event": event, "logger": logger}


def level_of(number: int) -> str:
    """The name of a level; a library's own level has that of the next one below."""
    names = ((logging.CRITICAL, "critical"), (logging.ERROR, "error"), (logging.WARNING, "warning"))
    lesser = "info" if number >= logging.INFO else "debug"
    return next((name for least, name in names if number >= least), lesser)


def failure_of(exc_info: object) -> BaseException | None:
    """The exception behind any of the ways in which one may be handed over."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        parts = cast("tuple[object, ...]", exc_info)
        return next((part for part in parts if isinstance(part, BaseException)), None)
    return sys.exc_info()[1] if exc_info else None


def described(failure: object) -> Json:
    """An exception in two words; an `error` is an object in every line, so that a store of lines needs one column."""
    if not isinstance(failure, BaseException):
        return cast("Json", failure) if isinstance(failure, dict) else {"message": textual(failure)}
    kind = type(failure)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return {"type": name, "message": shown(failure, str)}


def trace_of(failure: BaseException) -> str:
    """Where it came from, as Python tells it."""
    return shown(failure, lambda known: "".join(traceback.format_exception(known)).rstrip("\n"))


def textual(value: object) -> str:
    """A text as it is, and anything else as it looks."""
    return value if isinstance(value, str) else shown(value)


def fitted(told: Json, budget: int) -> Json:
    """The line within a budget of characters; values may spend half of it, the error and its trace what is left."""
    last = {name: told[name] for name in ("error", "trace") if name in told}
    first = {name: value for name, value in told.items() if name not in last}
    cleaner = Cleaner(budget // 2)
    clean = cleaner.mapping(first, depth=0)
    return clean | Cleaner(budget - budget // 2 + cleaner.left).mapping(last, depth=0)


class Cleaner:
    """Copies values of any kind into plain JSON, until its budget of characters is spent."""

    def __init__(self, budget: int) -> None:
        self.left = budget
        self.max_length = budget * 5 // 9  # for any one text: something is left for the others

    def mapping(self, values: Mapping[Any, Any], depth: int) -> Json:
        """An object, its secrets masked by name; what the budget has no room for is left out, and that is said."""
        copy: Json = {}
        for name, value in values.items():
            if self.left <= 0:
                copy[CUT] = CUT
                break
            name = textual(name)
            key = self.text(name, MAX_KEY_LENGTH)
            self.left -= 4  # two quotes, a colon and a comma
            copy[key] = MASK if SECRET_NAME.search(name) else self.value(value, depth, is_trace=(depth, name) == TRACE)
        return copy

    def sequence(self, values: Iterable[Any], depth: int) -> list[Any]:
        """A list, as far as the budget goes."""
        copy: list[Any] = []
        for value in values:
            if self.left <= 0:
                copy.append(CUT)
                break
            copy.append(self.value(value, depth))
        return copy

    def value(self, value: object, depth: int, *, is_trace: bool = False) -> Any:
        """Any value as JSON has it, or else as text."""
        self.left -= 3  # two quotes or brackets and a comma
        try:
            return self.trace(str(value)) if is_trace else self.plain(value, depth)
        except Exception:
            return self.text(unprintable(value), MAX_KEY_LENGTH)

    def plain(self, value: object, depth: int) -> Any:
        """As `value`, for values that behave."""
        match value:
            case None | bool():
                return value
            case str():
                return self.text(value)
            case int() if -(2**63) <= value < 2**63:
                return int(value)
            case float() if math.isfinite(value):
                return float(value)
            case dict() | list() | tuple() | set() | frozenset() if depth >= MAX_DEPTH:
                return CUT
            case dict():
                return self.mapping(cast("dict[Any, Any]", value), depth + 1)
            case list() | tuple() | set() | frozenset():
                return self.sequence(cast("Iterable[Any]", value), depth + 1)
            case _:
                return self.text(shown(value))

    def text(self, text: str, max_length: int = MAX_TEXT_LENGTH) -> str:
        """A text, written so that it can be, and cut at its end."""
        clean, room = writable(text), self.room(max_length)
        return self.spend(clean if len(clean) <= room else clean[:room] + CUT)

    def trace(self, text: str) -> str:
        """A trace, cut in its middle: it begins with the cause and ends with what came of it."""
        clean, room = writable(text), self.room(MAX_TRACE_LENGTH)
        ending = len(clean) - (room - room // 4)
        return self.spend(clean if len(clean) <= room else f"{clean[: room // 4]}\n{CUT}\n{clean[ending:]}")

    def room(self, max_length: int) -> int:
        """How long a text may be here and now."""
        return max(0, min(max_length, self.max_length, self.left))

    def spend(self, text: str) -> str:
        """Take the text off the budget."""
        self.left -= len(text)
        return text


def shown(value: object, show: Callable[[Any], str] | None = None) -> str:
    """What a value that is not JSON looks like."""
    try:
        return str.__str__((show or shape_of(value))(value))
    except Exception:
        return unprintable(value)


def shape_of(value: object) -> Callable[[Any], str]:
    """How to tell a value: plainly where there is a plain form, by its repr otherwise."""
    match value:
        case datetime() | date() | time_of_day():
            return lambda known: known.isoformat()
        case UUID() | PurePath() | Decimal() | timedelta():
            return str
        case bytes() | bytearray():
            return lambda known: repr(bytes(known[:MAX_READ_LENGTH]))
        case _:
            return repr


def unprintable(value: object) -> str:
    """The words for a value that cannot even be shown."""
    return f"<unprintable {type(value).__name__}>"


TRACE = (0, "trace")
UNWRITABLE = re.compile("[\0\ud800-\udfff]")
SECRET_WORD = "(?:password|passwd|secret|token|authorization|api[_-]?key|dsn|cookie)"  # noqa: S105 (words, not a secret)
SECRET_NAME = re.compile(SECRET_WORD, re.IGNORECASE)
API_KEY = re.compile(r"(duly_[a-z0-9]{12}_)[A-Za-z0-9_-]+")  # what follows may be shown to nobody, whole or in part
BOT_TOKEN = re.compile(r"(\d{1,20}:)[A-Za-z0-9_-]{30,}")  # of Telegram, which stands in every address of its Bot API
ADDRESS = re.compile(r"(postgres(?:ql)?(?:\+\w{1,32})?)?://(\S*)", re.ASCII | re.IGNORECASE)
ASSIGNED = re.compile(  # password=it, password = 'it', and 'password': 'it' inside the repr of something
    rf"""({SECRET_WORD}\w{{0,32}}(?:\s{{0,32}}=|\\*['"]\s{{0,32}}:)\s{{0,32}})"""
    r"""(?:\w{0,2}\\*'(?:[^'\\]|\\+.)*'?|\w{0,2}\\*"(?:[^"\\]|\\+.)*"?|\S+)""",  # in a repr, backslashes are doubled
    re.ASCII | re.IGNORECASE | re.DOTALL,
)


def writable(text: str) -> str:
    """The text without secrets, and with U+FFFD for what no encoding or terminal would take."""
    return UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", masked(str.__str__(text)))


def masked(text: str) -> str:
    """The text without the passwords and keys in it; of a very long one only the beginning."""
    if len(text) <= MAX_READ_LENGTH:
        return without_secrets(text)
    # the @ stands for the one that would have ended a password, had we not cut before it
    return without_secrets(text[:MAX_READ_LENGTH] + "@")


def without_secrets(text: str) -> str:
    """The text with `***` in place of passwords in addresses, values of secret names, and keys of ours."""
    if "://" in text:
        text = ADDRESS.sub(without_password, text)
    if ":" in text:
        text = BOT_TOKEN.sub(rf"\1{MASK}", text)
    if "=" in text or ":" in text:
        text = ASSIGNED.sub(rf"\1{MASK}", text)
    return API_KEY.sub(rf"\1{MASK}", text) if "duly_" in text else text


def without_password(address: re.Match[str]) -> str:
    """An address without its password; in PostgreSQL's a bare @ or / may be part of it, so it ends at the last @."""
    scheme, rest = address[1], address[2]
    end = (rest if scheme else re.split(r"[/?#]", rest, maxsplit=1)[0]).rfind("@")
    colon = rest.find(":", 0, max(end, 0))
    return address[0] if colon < 0 else f"{scheme or ''}://{rest[:colon]}:{MASK}{rest[end:]}"


def render_json(told: Json) -> str:
    """One line of JSON."""
    return orjson.dumps(told).decode()


def pretty_renderer(*, colors: bool) -> Render:
    """Lines for people, in colours unless they asked for none; a trace follows in lines of its own."""
    console = structlog.dev.ConsoleRenderer(
        colors=colors and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,
        sort_keys=False,
        timestamp_key="ts",
    )

    def render(told: Json) -> str:
        shown = {PRETTY_NAMES.get(name, visible(name)): in_one_line(value) for name, value in told.items()}
        if "error" in told:
            shown["error"] = in_one_line(error_in_words(told["error"]))
        if "trace" in told:
            shown["exception"] = "\n".join(visible(line) for line in str(told["trace"]).split("\n"))
        return str(console(None, "", shown))

    return render


def error_in_words(error: Json) -> object:
    """An error as Python would print it; one that says more is shown as it is."""
    return error if error.keys() - {"type", "message"} else ": ".join(str(part) for part in error.values())


def in_one_line(value: object) -> object:
    """A value that stays in its line; what is not text does so by its repr."""
    return visible(value) if isinstance(value, str) else value


def visible(text: str) -> str:
    """The text with escapes for whatever would move a terminal's cursor or begin a line of its own."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


State.setup = Setup(Output(None, "json"), logging.WARNING)
