"""Write one line for each log event, as JSON or for people.

    get_log(name).info("job.claimed", type="mail", rows=20)  --+
    uvicorn, psycopg.pool, asyncio, alembic (logging)        --+--> redact, truncate --> render --> stdout

Logging never raises, and a line is at most 16 kB. Secrets are masked before a text is truncated, so that no part of one
is left. A logger created before `configure_logs` follows it too; without a configuration (duly used as a library),
warnings and errors go to stderr. docs/logs.md describes the lines.
"""

import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ClassVar, Protocol, TextIO, cast

import structlog

from duly.redaction import Json, Redactor, Trace, to_text
from duly.settings import Settings

__all__ = ["get_log"]

MAX_LINE_LENGTH = 16_384  # bytes, including the newline
BUDGETS = (15_600, 6_000, 2_400, 960)  # characters for a line; each may become ten bytes as an escape, hence the last
LEVELS = ("debug", "info", "warning", "error", "critical")
FORMATTER_ATTRIBUTES = ("_record", "_from_structlog", "message", "asctime", "color_message")  # set by formatters
CONSOLE_NAMES = {"trace": "exception", "exception": "exception_", "stack": "stack_"}  # ConsoleRenderer reserves two
LOUD_LIBRARIES = ("uvicorn", "uvicorn.access", "uvicorn.error")  # they install handlers of their own
WITH_ADDRESSES = {  # these log URLs and headers, which may contain credentials: the lowest level that is written
    **dict.fromkeys(("httpx2", "httpcore2", "requests", "requests_oauthlib", "oauthlib", "botocore"), logging.WARNING),
    "urllib3": logging.ERROR,  # its warnings about an unexpected response contain the URL
}


class Log(Protocol):
    """A logger: a constant event name, and everything variable as fields."""

    def debug(self, event: str, **fields: object) -> None: ...
    def info(self, event: str, **fields: object) -> None: ...
    def warning(self, event: str, **fields: object) -> None: ...
    def error(self, event: str, **fields: object) -> None: ...
    def critical(self, event: str, **fields: object) -> None: ...
    def exception(self, event: str, **fields: object) -> None: ...
    def bind(self, **fields: object) -> "Log": ...


def configure_logs(settings: Settings, stream: TextIO | None = None) -> None:
    """Write all log lines as the settings say, to stdout by default; replaces an earlier configuration."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    output = Output(stream or sys.stdout, settings.log_format, level)
    with State.lock:
        State.setup = output
        for log in State.logs.values():
            log.apply(output)
        structlog.configure(**output.options, cache_logger_on_first_use=False)  # for code that uses structlog directly
        route_standard_logging(output, level)


def get_log(name: str) -> Log:
    """Return the logger of this name, always the same object; its lines carry the name."""
    with State.lock:
        if name not in State.logs:
            State.logs[name] = ReconfigurableLog(name, State.setup)
        return cast("Log", State.logs[name])


class ReconfigurableLog:
    """A logger that follows each new setup; structlog's lazy logger does so too, but costs 2.8 µs for each call."""

    def __init__(self, name: str, setup: "Output") -> None:
        self.name = name
        self.apply(setup)

    def apply(self, setup: "Output") -> None:
        """Copy the methods of a structlog logger with this setup; a call below its level then costs 0.15 µs."""
        logger = setup.options["wrapper_class"](setup, setup.options["processors"], {"logger": self.name})
        self.__dict__.update({method: getattr(logger, method) for method in (*LEVELS, "exception", "bind")})

    def __reduce__(self) -> tuple[Callable[[str], Log], tuple[str]]:
        return get_log, (self.name,)  # another process has its own setup


class SafeLogger:
    """Keeps a structlog logger from raising, even with little stack or memory left."""

    def _proxy_to_logger(self, method_name: str, event: str | None = None, /, **values: Any) -> None:
        with suppress(Exception):
            line = cast("Any", super())._process_event(method_name, event, values)[0][0]
            cast("Any", self)._logger.write(line)


class Output(logging.Handler):
    """Renders and writes the lines of structlog and of the standard library.

    The lock of a handler is reentrant, since a finaliser may log while a line is written, and is replaced after a fork.
    """

    def __init__(self, stream: TextIO | None, form: str, level: int) -> None:
        super().__init__()
        self.stream = stream
        is_terminal = False
        with suppress(ValueError):  # closed
            is_terminal = stream is not None and stream.isatty()
        self.encoding: str = getattr(stream or sys.stderr, "encoding", None) or "utf-8"
        is_utf8 = self.encoding.lower().replace("-", "") == "utf8"
        if form == "pretty" or (form == "auto" and is_terminal):
            self.renderer: Callable[[Json], str] = console_renderer(colors=is_terminal)
        else:
            self.renderer = json.JSONEncoder(ensure_ascii=not is_utf8, separators=(",", ":")).encode
        merge = structlog.contextvars.merge_contextvars
        self.formatter = structlog.stdlib.ProcessorFormatter(
            processors=[self.render], foreign_pre_chain=[merge, structlog.stdlib.ExtraAdder()]
        )
        filtering = structlog.make_filtering_bound_logger(level)
        self.options: dict[str, Any] = {
            "processors": [merge, self.render],
            "wrapper_class": type(filtering.__name__, (SafeLogger, filtering), {}),
            "context_class": dict,
            "logger_factory": self.get_output,
        }

    def get_output(self, *_: object) -> "Output":
        """Return this output, to which all loggers write."""
        return self

    def render(self, _: object, method: str, event_dict: Mapping[str, Any]) -> str:
        """Render an event as one line within its length; the last structlog processor."""
        try:
            fields = build_fields(method, event_dict)
            for budget in BUDGETS:
                line = self.renderer(Redactor(budget).mapping(fields)).encode(self.encoding, "backslashreplace")
                if len(line) < MAX_LINE_LENGTH:
                    return line.decode(self.encoding)
            raise ValueError("line too long")
        except Exception as error:
            failure = {"event": "log.render_failed", "logger": __name__, "error": {"type": type(error).__name__}}
            return json.dumps({"ts": timestamp(), "level": "error", **failure})

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of the standard library; if its arguments do not fit its message, write both as they are."""
        with suppress(Exception):
            try:
                record.getMessage()
            except Exception:
                message = to_text((record.msg, record.args))
                record = logging.makeLogRecord({**record.__dict__, "msg": message, "args": None})
            self.write(self.format(record))

    def write(self, line: str) -> None:
        """Write a line; it is lost if the stream is missing, closed or broken."""
        with suppress(Exception), cast("Any", self.lock):
            stream = self.stream or sys.stderr
            stream.write(f"{line}\n")
            stream.flush()


class State:
    """The current setup, and the loggers that follow it."""

    lock = threading.RLock()
    logs: ClassVar[dict[str, ReconfigurableLog]] = {}
    setup: ClassVar[Output]


def route_standard_logging(output: Output, level: int) -> None:
    """Send the standard library's loggers to this output, but not the URLs that some libraries log."""
    root = logging.getLogger()
    root.handlers[:] = [*(handler for handler in root.handlers if not isinstance(handler, Output)), output]
    root.setLevel(level)
    for name in LOUD_LIBRARIES:
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    for name in ("psycopg", "psycopg.pool"):
        logging.getLogger(name).addFilter(has_no_connection)
    for name, min_level in WITH_ADDRESSES.items():
        logging.getLogger(name).setLevel(max(level, min_level))


def has_no_connection(record: logging.LogRecord) -> bool:
    """Return whether a record is free of psycopg's connection objects, which mean nothing to a reader."""
    args = record.args if isinstance(record.args, tuple) else ()
    return not any(type(arg).__module__.startswith("psycopg") and not isinstance(arg, Exception) for arg in args)


def timestamp() -> str:
    """Format the current time, in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def build_fields(method: str, event_dict: Mapping[str, Any]) -> Json:
    """Build the fields of a line, in order; a caller's value with a reserved name gets a `_` appended to it."""
    record: logging.LogRecord | None = event_dict.get("_record")
    values = {name: value for name, value in event_dict.items() if record is None or name not in FORMATTER_ATTRIBUTES}
    exception = find_exception(values.pop("exc_info", None))
    fields: Json = {
        "ts": timestamp(),
        "level": LEVELS[min(max(record.levelno // 10, 1), 5) - 1] if record else method,
        "event": to_text(values.pop("event", "")),
        "logger": record.name if record else to_text(values.pop("logger", "root")),
    }
    if exception is not None:
        fields |= {"error": describe_error(exception), "trace": Trace(to_text(exception, format_trace))}
    elif "error" in values:
        fields["error"] = describe_error(values.pop("error"))
    if exception is None and isinstance(values.get("trace"), Trace):
        fields["trace"] = values.pop("trace")
    return fields | {f"{name}_" if name in {*fields, "trace"} else name: value for name, value in values.items()}


def format_trace(exception: BaseException) -> str:
    """Format the traceback of an exception and of its causes."""
    return "".join(traceback.format_exception(exception)).rstrip("\n")


def find_exception(exc_info: object) -> BaseException | None:
    """Find the exception in any form of `exc_info`."""
    if isinstance(exc_info, BaseException):
        return exc_info
    if isinstance(exc_info, tuple):
        parts = cast("tuple[object, ...]", exc_info)
        return next((part for part in parts if isinstance(part, BaseException)), None)
    return sys.exc_info()[1] if exc_info else None


def describe_error(error: object) -> Json:
    """Describe an error as an object, whatever its type, so that a log store needs one column type."""
    if not isinstance(error, BaseException):
        return cast("Json", error) if isinstance(error, dict) else {"message": to_text(error)}
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    return {"type": name, "message": to_text(error, str)}


def console_renderer(*, colors: bool) -> Callable[[Json], str]:
    """Create a renderer of lines for people; a trace follows in lines of its own."""
    console = structlog.dev.ConsoleRenderer(
        colors=colors and not os.environ.get("NO_COLOR"),
        exception_formatter=structlog.dev.plain_traceback,
        sort_keys=False,
        timestamp_key="ts",
    )

    def render(fields: Json) -> str:
        error: Any = fields.get("error")
        if isinstance(error, dict) and error.keys() <= {"type", "message"}:
            fields = fields | {"error": ": ".join(str(part) for part in cast("Json", error).values())}
        line: Json = {CONSOLE_NAMES.get(name) or escape(name): escape(value) for name, value in fields.items()}
        if "trace" in fields:
            line["exception"] = "\n".join(escape(part) for part in fields["trace"].split("\n"))
        return str(console(None, "", line))

    return render


def escape(value: Any) -> Any:
    """Escape the characters of a text that move a terminal's cursor or start a line; the repr of other values does."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in value)


State.setup = Output(None, "json", logging.WARNING)
