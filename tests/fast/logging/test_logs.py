"""Log lines have one format and a bounded length, contain no secrets, and logging never raises."""

import io
import json
import logging
import os
import pickle
import re
import subprocess
import threading
import time
import timeit
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn
from urllib.parse import quote
from uuid import UUID

import hypothesis
import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

from duly.accounts.model import new_secret
from duly.launcher import ROOT
from duly.logging import (
    LOUD_LIBRARIES,
    MAX_LINE_LENGTH,
    WITH_ADDRESSES,
    Log,
    Output,
    State,
    configure_logs,
    get_log,
)
from duly.redaction import MAX_READ_LENGTH, MAX_TRACE_LENGTH, masked
from duly.settings import Settings
from tests.support.processes import PYTHON, plain_environment

Form = Literal["auto", "json", "pretty"]
FORMS: tuple[Form, Form] = ("json", "pretty")
BEGINS, ENDS = "s3cr3t", "h1dd3n"  # of a planted secret; neither may be written

log = get_log("duly.example")  # made before anything is configured, as in every module


@pytest.fixture(autouse=True)
def restore_logging() -> Generator[None, None, None]:
    """Restore the logging configuration, for the other tests in this process."""
    root, setup = logging.getLogger(), State.setup
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in (*WITH_ADDRESSES, *LOUD_LIBRARIES)}
    for name in LOUD_LIBRARIES:  # a server that an earlier test ran in this process has set theirs
        logging.getLogger(name).setLevel(logging.NOTSET)
    yield
    root.handlers[:], root.level = handlers, level
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    State.setup = setup
    for late in State.logs.values():
        late.apply(setup)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def settings(form: Form = "json", level: str = "debug") -> Settings:
    return Settings().model_copy(update={"log_format": form, "log_level": level})


def capture(write_logs: Callable[[Log], object], form: Form = "json", level: str = "debug") -> str:
    """Return all output of a block."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()  # pytest's own fail on some of the records
    configure_logs(settings(form, level), stream)
    write_logs(log)
    return stream.getvalue()


def capture_line(write_logs: Callable[[Log], object]) -> dict[str, Any]:
    """Return the one line of JSON that a block logs."""
    text = capture(write_logs)
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert len(text.encode()) <= MAX_LINE_LENGTH
    return json.loads(text)


def raised(error: BaseException) -> BaseException:
    """Return the error with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


# Format ---------------------------------------------------------------------------------------------------------------


def test_a_line_starts_with_its_four_keys_followed_by_bound_fields() -> None:
    before = datetime.now(UTC)
    line = capture_line(lambda log: log.bind(work_type="mail").info("claimed", rows=20))
    assert list(line) == ["ts", "level", "event", "logger", "work_type", "rows"]
    assert line | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "event": "claimed",
        "logger": "duly.example",
        "work_type": "mail",
        "rows": 20,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    assert abs(datetime.fromisoformat(line["ts"]) - before) < timedelta(minutes=1)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_every_level_has_its_name(level: str) -> None:
    assert capture_line(lambda log: getattr(log, level)("logged"))["level"] == level


def test_lines_below_the_level_are_not_written() -> None:
    def write_logs(log: Log) -> None:
        log.debug("no")
        log.info("no")
        logging.getLogger("other").info("no")
        log.warning("yes")
        logging.getLogger("other").warning("yes")

    assert [json.loads(line)["event"] for line in capture(write_logs, level="warning").splitlines()] == ["yes", "yes"]


def test_context_variables_are_in_every_line() -> None:
    structlog.contextvars.bind_contextvars(job="j1")
    assert capture_line(lambda log: log.info("logged"))["job"] == "j1"
    assert capture_line(lambda _: logging.getLogger("other").info("logged"))["job"] == "j1"


def test_values_without_a_json_type_become_text() -> None:
    values: dict[str, object] = {
        "at": datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2025, 1, 2),
        "id": UUID(int=1),
        "path": Path("/a/b"),
        "amount": Decimal("1.50"),
        "raw": b"\xff",
        "nan": float("nan"),
        "big": 2**70,
        "pair": (1, 2),
        "odd": complex(1, 2),
        "by_number": {1: "one"},
    }
    line = capture_line(lambda log: log.info("logged", **values))
    assert {name: line[name] for name in values} == {
        "at": "2025-01-02T03:04:05+00:00",
        "day": "2025-01-02",
        "id": "00000000-0000-0000-0000-000000000001",
        "path": "/a/b",
        "amount": "1.50",
        "raw": r"b'\xff'",
        "nan": "nan",
        "big": str(2**70),
        "pair": [1, 2],
        "odd": "(1+2j)",
        "by_number": {"1": "one"},
    }


def test_a_field_with_a_reserved_name_gets_an_underscore() -> None:
    line = capture_line(lambda log: log.info("logged", ts=1, level="high", trace="x", method_name="y"))
    assert line["level"] == "info"
    assert (line["ts_"], line["level_"], line["trace_"], line["method_name"]) == (1, "high", "x", "y")


def test_an_event_that_is_not_text_is_logged_by_its_repr() -> None:
    assert capture_line(lambda log: log.info({"a": 1}))["event"] == "{'a': 1}"  # pyright: ignore[reportArgumentType]


# Exceptions -----------------------------------------------------------------------------------------------------------


def log_current_exception(log: Log, error: BaseException) -> None:
    try:
        raise error
    except type(error):
        log.exception("failed", work_type="mail")


def log_exception_instance(log: Log, error: BaseException) -> None:
    log.error("failed", work_type="mail", exc_info=raised(error))


def log_exception_tuple(log: Log, error: BaseException) -> None:
    log.error("failed", work_type="mail", exc_info=(type(error), raised(error), error.__traceback__))


@pytest.mark.parametrize("write_logs", [log_current_exception, log_exception_instance, log_exception_tuple])
def test_an_exception_is_logged_with_type_message_and_trace(write_logs: Callable[[Log, BaseException], None]) -> None:
    line = capture_line(lambda log: write_logs(log, ValueError("no good")))
    assert list(line) == ["ts", "level", "event", "logger", "error", "trace", "work_type"]
    assert line["error"] == {"type": "ValueError", "message": "no good"}
    assert line["trace"].startswith("Traceback (most recent call last):\n")
    assert line["trace"].endswith("\nValueError: no good")


def test_the_type_of_an_exception_includes_its_module() -> None:
    assert capture_line(lambda log: log.error("failed", error=json.JSONDecodeError("bad", "x", 0)))["error"] == {
        "type": "json.decoder.JSONDecodeError",
        "message": "bad: line 1 column 1 (char 0)",
    }


def test_an_error_is_always_an_object() -> None:
    assert capture_line(lambda log: log.warning("logged", error="too late"))["error"] == {"message": "too late"}
    assert capture_line(lambda log: log.warning("logged", error={"code": 5}))["error"] == {"code": 5}
    both = capture_line(lambda log: log.error("logged", error="mine", exc_info=raised(KeyError("theirs"))))
    assert both["error"] == {"type": "KeyError", "message": "'theirs'"}
    assert both["error_"] == "mine"


class EmptyError(Exception):
    """An exception that is false in a condition."""

    def __len__(self) -> int:
        return 0


def test_falsy_exception_is_logged() -> None:
    assert capture_line(lambda log: log.error("failed", exc_info=raised(EmptyError("no"))))["error"]["message"] == "no"


class UnreadableDict(dict[str, object]):
    """A dict whose items cannot be read."""

    def items(self) -> NoReturn:
        raise RuntimeError("no")


@pytest.mark.parametrize("form", FORMS)
def test_line_with_an_unprintable_error_is_not_lost(form: Form) -> None:
    text = capture(lambda log: log.error("failed", error=UnreadableDict(a=1)), form)
    assert "failed" in text
    assert "<unprintable UnreadableDict>" in text


def test_without_an_exception_there_is_no_error() -> None:
    for nothing in (None, False, True, (None, None, None)):
        assert list(capture_line(lambda log, nothing=nothing: log.info("logged", exc_info=nothing))) == [
            "ts",
            "level",
            "event",
            "logger",
        ]


def test_a_long_trace_is_truncated_in_its_middle() -> None:
    error: BaseException = ValueError("the beginning")
    for number in range(100):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = raised(following)
    trace = capture_line(lambda log: log.error("failed", exc_info=error))["trace"]
    assert MAX_TRACE_LENGTH // 2 < len(trace) <= MAX_TRACE_LENGTH + 3
    assert trace.startswith("ValueError: the beginning")
    assert "\n…\n" in trace
    assert trace.endswith("ValueError: number 99")


# The standard library -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uvicorn.error", "uvicorn.access", "psycopg.pool", "asyncio", "alembic.runtime"])
def test_library_lines_have_the_same_format(name: str) -> None:
    logger = logging.getLogger(name)
    line = capture_line(lambda _: logger.warning("pool %s: %d left", "p1", 3, extra={"left": 3, "color_message": "x"}))
    assert list(line) == ["ts", "level", "event", "logger", "left"]
    assert line | {"ts": ""} == {"ts": "", "level": "warning", "event": "pool p1: 3 left", "logger": name, "left": 3}


def test_attributes_set_by_other_formatters_are_left_out() -> None:
    def write_logs(_: Log) -> None:
        other = logging.StreamHandler(io.StringIO())
        other.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("other").addHandler(other)
        logging.getLogger("other").info("logged")
        logging.getLogger("other").removeHandler(other)

    assert list(capture_line(write_logs)) == ["ts", "level", "event", "logger"]
    assert capture_line(lambda log: log.info("logged", message="mine"))["message"] == "mine"


def test_library_exceptions_are_logged_like_ours() -> None:
    line = capture_line(lambda _: logging.getLogger("asyncio").error("lost", exc_info=raised(OSError("gone"))))
    assert line["error"] == {"type": "OSError", "message": "gone"}
    assert line["trace"].endswith("OSError: gone")


def test_a_library_message_that_does_not_fit_its_arguments_is_logged_unformatted() -> None:
    assert (
        capture_line(lambda _: logging.getLogger("other").warning("%d rows", "many"))["event"]
        == "('%d rows', ('many',))"
    )


@pytest.mark.parametrize(("number", "level"), [(5, "debug"), (25, "info"), (35, "warning"), (70, "critical")])
def test_a_custom_level_is_logged_as_the_standard_level_below_it(number: int, level: str) -> None:
    logger = logging.getLogger("other.levels")
    logger.setLevel(1)
    assert capture_line(lambda _: logger.log(number, "logged"))["level"] == level


def test_handlers_that_a_library_installed_are_removed() -> None:
    other = io.StringIO()
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler(other))
    logging.getLogger("uvicorn.access").propagate = False
    assert capture_line(lambda _: logging.getLogger("uvicorn.access").info("GET /"))["event"] == "GET /"
    assert other.getvalue() == ""


@pytest.mark.parametrize("level", ["debug", "info"])
@pytest.mark.parametrize(
    "name", ["httpx2", "httpcore2.http11", "urllib3.connectionpool", "requests_oauthlib.oauth1_auth", "botocore.auth"]
)
def test_urls_logged_by_libraries_are_not_written_at_any_level(name: str, level: str) -> None:
    def write_logs(_: Log) -> None:
        for word in ("debug", "info"):
            getattr(logging.getLogger(name), word)("POST %s", "https://example.com/hooks/h1dd3n")
        logging.getLogger(name).error("it broke")

    assert [json.loads(line)["event"] for line in capture(write_logs, level=level).splitlines()] == ["it broke"]


def test_the_configured_level_also_limits_libraries_that_log_urls() -> None:
    def write_logs(_: Log) -> None:
        logging.getLogger("httpx2").warning("no")
        logging.getLogger("httpx2").error("yes")

    assert [json.loads(line)["event"] for line in capture(write_logs, level="error").splitlines()] == ["yes"]


def test_lines_logged_with_structlog_directly_have_the_same_format() -> None:
    line = capture_line(lambda _: structlog.get_logger().info("logged", rows=1))
    assert list(line) == ["ts", "level", "event", "logger", "rows"]
    assert line["logger"] == "root"


# Configuring ----------------------------------------------------------------------------------------------------------


def test_configuring_again_replaces_the_earlier_configuration() -> None:
    first, second = io.StringIO(), io.StringIO()
    library = logging.getLogger("other")
    configure_logs(settings(), first)
    configure_logs(settings(), first)
    log.info("once")
    library.info("once")
    configure_logs(settings("pretty", "error"), second)
    log.info("never")
    log.error("later")
    library.error("later")
    assert [json.loads(line)["event"] for line in first.getvalue().splitlines()] == ["once", "once"]
    assert [line.split()[2:4] for line in second.getvalue().splitlines()] == [["]", "later"], ["]", "later"]]


def test_other_handlers_of_the_root_logger_are_kept() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logs(settings(), io.StringIO())
    configure_logs(settings(), io.StringIO())
    root = logging.getLogger()
    assert other in root.handlers
    assert sum(isinstance(handler, Output) for handler in root.handlers) == 1


def test_a_name_has_one_logger_which_can_be_pickled() -> None:
    assert get_log("duly.example") is log
    assert pickle.loads(pickle.dumps(log)) is log  # noqa: S301 (our own)


def test_lines_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(settings())
    log.info("logged")
    out, err = capsys.readouterr()
    assert (json.loads(out)["event"], err) == ("logged", "")


def test_without_configuration_warnings_go_to_stderr() -> None:
    code = "from duly.logging import get_log; log = get_log('x'); log.info('no'); log.warning('yes', dsn='x')"
    ran = subprocess.run([*PYTHON, "-c", code], capture_output=True, text=True, check=True, env=plain_environment())
    assert ran.stdout == ""
    assert [json.loads(line)["event"] for line in ran.stderr.splitlines()] == ["yes"]


def test_auto_is_json_without_a_terminal() -> None:
    assert json.loads(capture(lambda log: log.info("logged"), "auto"))["event"] == "logged"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_auto_is_pretty_on_a_terminal(no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    master, terminal = os.openpty()
    with open(master, "rb", buffering=0) as watched, open(terminal, "w") as stream:  # noqa: PTH123 (descriptors)
        configure_logs(settings("auto"), stream)
        log.info("logged", rows=1)
        output = watched.read(1000).decode()
    assert ("\x1b[" in output) is (not no_color)
    assert re.search(r"^\S*\d{4}-\d\d-\d\dT\S+Z\S* \[\S*info", output)


# Pretty ---------------------------------------------------------------------------------------------------------------


def test_a_pretty_line_has_its_fields_in_order_and_its_trace_below() -> None:
    text = capture(
        lambda log: log.error("settle failed", zeta=1, alpha="b", exc_info=raised(ValueError("no"))), "pretty"
    )
    first, second, *_, last = text.splitlines()
    ending = "[duly.example] error='ValueError: no' zeta=1 alpha=b"
    assert re.fullmatch(rf"\S+Z \[error    \] settle failed +{re.escape(ending)}", first)
    assert second == "Traceback (most recent call last):"
    assert last == "ValueError: no"


@pytest.mark.parametrize("nasty", ["\n", "\r", "\x1b[2J", "\x9b2J", "\u2028", "\u202e", "\x85"])
def test_control_characters_in_a_pretty_line_are_escaped(nasty: str) -> None:
    values: dict[str, object] = {"plain": f"x{nasty}y", f"k{nasty}": 1, "nested": [f"x{nasty}y"], "error": nasty}
    text = capture(lambda log: log.info(f"x{nasty}y", **values), "pretty")
    assert nasty not in text.removesuffix("\n")
    assert len(text.splitlines()) == 1


def test_field_names_reserved_by_the_console_renderer_are_renamed() -> None:
    text = capture(lambda log: log.info("logged", stack=1, exception=2, logger_name=3, timestamp=4), "pretty")
    assert "stack_=1 exception_=2" in text
    assert "logged" in text


def nested(depth: int) -> object:
    value: object = "x"
    for _ in range(depth):
        value = [value, {"deeper": value}] if depth < 20 else [value]
    return value


def cyclic() -> object:
    value: list[object] = [1]
    value.append({"again": value})
    return value


HUGE: dict[str, Callable[[], object]] = {
    "text": lambda: "x" * 50_000_000,
    "bytes": lambda: b"\xff" * 50_000_000,
    "list": lambda: list(range(1_000_000)),
    "dict": lambda: {str(number): number for number in range(200_000)},
    "empty": lambda: [()] * 200_000,
    "deep": lambda: nested(100_000),
    "bushy": lambda: nested(19),
    "cyclic": cyclic,
    "number": lambda: 10**100_000,
    "name": lambda: {"k" * 1_000_000: 1},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", HUGE)
def test_huge_values_are_truncated(kind: str, form: Form) -> None:
    value = HUGE[kind]()
    text = capture(lambda log: log.info("logged", value=value, work_type="mail"), form)
    assert "log.render_failed" not in text
    assert len(text.encode()) <= MAX_LINE_LENGTH
    assert "logged" in text


def test_a_huge_value_leaves_room_for_the_other_fields() -> None:
    error = raised(ValueError("m" * 50_000))
    line = capture_line(lambda log: log.bind(work_type="mail").error("e" * 9_000, value="v" * 50_000, exc_info=error))
    assert line["error"]["type"] == "ValueError"
    assert line["work_type"] == "mail"
    assert all(len(text) > 1_000 for text in (line["event"], line["value"], line["error"]["message"], line["trace"]))


def test_logging_with_little_stack_left_raises_nothing() -> None:
    def recurse(log: Log) -> None:
        log.info("logged")
        recurse(log)

    def recurse_until_error(log: Log) -> None:
        with pytest.raises(RecursionError):
            recurse(log)

    for line in capture(recurse_until_error).splitlines():
        assert json.loads(line)  # complete, or log.render_failed


class Broken(io.StringIO):
    """A stream whose writes fail."""

    def write(self, _: str) -> NoReturn:
        raise BrokenPipeError


def test_a_closed_or_broken_stream_raises_nothing() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, Broken()):
        configure_logs(settings("auto"), stream)
        log.info("logged")
        logging.getLogger("other").info("logged")


@pytest.mark.parametrize(("form", "expected"), [("json", r"gr\u00fcn"), ("pretty", r"gr\xfcn")])
def test_characters_that_the_stream_cannot_encode_are_escaped(form: Form, expected: str) -> None:
    raw = io.BytesIO()
    configure_logs(settings(form), io.TextIOWrapper(raw, "ascii"))
    log.info("grün")
    assert expected in raw.getvalue().decode()


def test_lines_of_several_threads_do_not_mix() -> None:
    threads, lines = 8, 200
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as reader, open(writing, "w") as stream:  # noqa: PTH123 (descriptors)
        configure_logs(settings(), stream)

        def write_logs(number: int) -> None:
            for nth in range(lines):
                mine = log if nth % 2 else logging.getLogger("duly.example")
                mine.info(f"{number}/{nth} " + "x" * 200)

        writers = [threading.Thread(target=write_logs, args=(number,)) for number in range(threads)]
        for writer in writers:
            writer.start()
        read = [json.loads(reader.readline())["event"].split()[0] for _ in range(threads * lines)]
        for writer in writers:
            writer.join()
    assert sorted(read) == sorted(f"{number}/{nth}" for number in range(threads) for nth in range(lines))


def test_a_line_below_the_level_costs_less_than_a_microsecond() -> None:
    calls = 100_000
    configure_logs(settings(level="info"), io.StringIO())
    call, names = "log.debug('logged', work_type='mail', rows=1)", {"log": log}
    seconds = min(timeit.repeat(call, timer=time.thread_time, globals=names, number=calls))
    assert seconds / calls < 1e-6  # measured: 0.15 µs


# Masking --------------------------------------------------------------------------------------------------------------

SECRET_NAMES = [
    "password",
    "PGPASSWORD",
    "db_password",
    "client_secret",
    "token",
    "accessToken",
    "Authorization",
    "api_key",
    "X-API-Key",
    "apikey",
    "dsn",
    "TEST_DSN",
    "cookie",
    "Set-Cookie",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_value_with_a_secret_name_is_masked(name: str, form: Form) -> None:
    values: dict[str, object] = {name: BEGINS, "nested": [{"deep": {name: [BEGINS]}}]}
    text = capture(lambda log: log.bind(**{name: BEGINS}).info("logged", **values), form)
    assert BEGINS not in text
    assert text.count("***") == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://user:pw@host:5432/db", "postgresql://user:***@host:5432/db"),
        ("postgres://user:pw@host", "postgres://user:***@host"),
        ("postgresql+psycopg://user:p%20w@[::1]:5432/db", "postgresql+psycopg://user:***@[::1]:5432/db"),
        ("POSTGRESQL://:pw@/db?host=/tmp", "POSTGRESQL://:***@/db?host=/tmp"),
        ("to postgresql://user:p@w/x@host/db, not", "to postgresql://user:***@host/db, not"),
        ("https://user:pw@host/path", "https://user:***@host/path"),
        ("host=h password=pw user=u", "host=h password=*** user=u"),
        ("password = 'p \\' w' user=u", "password = *** user=u"),
        ("postgresql://host/db?user=u&password=pw", "postgresql://host/db?user=u&password=***"),
        ("PGPASSWORD=pw psql", "PGPASSWORD=*** psql"),
        ("""{"password": "p w", "user": "u"}""", """{"password": ***, "user": "u"}"""),
        ("Config(api_key='k w', n=1)", "Config(api_key=***, n=1)"),
        (f"key duly_abc123abc123_{'x' * 43} used", "key duly_abc123abc123_*** used"),
        (f"duly_abc123abc123_{'x' * 10}", "duly_abc123abc123_***"),
        (f"https://api.telegram.org/bot123456:{'A_-x9' * 7}/getMe", "https://api.telegram.org/bot123456:***/getMe"),
        (f"the bot 123456:{'x' * 35} is refused", "the bot 123456:*** is refused"),
    ],
)
def test_a_secret_inside_a_text_is_masked(text: str, expected: str) -> None:
    assert masked(text) == expected
    assert capture_line(lambda log: log.info(text))["event"] == expected


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://localhost:5432/db",
        "postgresql://user@host/db",
        "http://127.0.0.1:8420/v1/users/a@b",
        'password authentication failed for user "u"',
        "unexpected token: }",
        "duly_leases_lost_total",
        "42:1794837780:complete at 2026-11-16T10:00:01.123456+00:00",
        "duly_worker",
    ],
)
def test_a_text_without_secrets_is_not_changed(text: str) -> None:
    assert masked(text) == text


@dataclass
class Thing:
    """A value that is logged by its repr."""

    value: object


letters = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
some_secret = letters.map(lambda middle: f"{BEGINS}{middle}{ENDS}")
secrets = st.one_of(
    some_secret.map(lambda secret: f"postgresql://user:{quote(secret, safe='')}@host/db"),
    some_secret.map(lambda secret: f"postgresql://user:{''.join(secret.split())}@host/db"),
    some_secret.map(lambda secret: make_conninfo(host="host", password=secret, user="user")),
    st.builds(lambda: new_secret()[:18] + BEGINS + "x" * 31 + ENDS),
    st.builds(lambda: new_secret()[:18] + BEGINS + ENDS),
)
around = st.sampled_from(["", " ", "\n", "x", "(", "'", '"', "x" * 5_000, "ü" * 20_000, "\0"])
LOG_CALLS: dict[str, Callable[[Log, str], object]] = {
    "event": lambda log, text: log.info(text),
    "value": lambda log, text: log.info("logged", value=text),
    "name": lambda log, text: log.info("logged", **{text: 1}),
    "nested": lambda log, text: log.info("logged", value=[{"a": (text,)}, {text: 1}, {text}]),
    "bytes": lambda log, text: log.info("logged", value=text.encode()),
    "repr": lambda log, text: log.info("logged", value=Thing([text])),
    "repr of a repr": lambda log, text: log.info("logged", value=Thing({"a": repr(text)})),
    "bound": lambda log, text: log.bind(value=text).info("logged"),
    "exception": lambda log, text: log.error("logged", exc_info=raised(ValueError(text))),
    "cause": lambda log, text: log.error("logged", exc_info=raised(ExceptionGroup("g", [KeyError(text)]))),
    "error": lambda log, text: log.error("logged", error=OSError(text)),
    "library": lambda _, text: logging.getLogger("other").info("logged %s", text),
    "library's misfit": lambda _, text: logging.getLogger("other").info("logged %d", text),
    "library's extra": lambda _, text: logging.getLogger("other").info("logged", extra={"value": text}),
}


@hypothesis.settings(max_examples=30)  # for each of the places
@given(around, secrets, around)
@example("", make_conninfo(password=f"{BEGINS}\\' \" {ENDS}"), "")
@example("", make_conninfo(password=f"{BEGINS}' {ENDS}"), "")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("log_call", LOG_CALLS)
def test_a_planted_secret_is_never_written(log_call: str, form: Form, before: str, secret: str, after: str) -> None:
    text = capture(lambda log: LOG_CALLS[log_call](log, before + secret + after), form)
    assert text
    assert BEGINS not in text
    assert ENDS not in text


@pytest.mark.parametrize("cut", range(MAX_READ_LENGTH - 80, MAX_READ_LENGTH + 5, 5))
@pytest.mark.parametrize(
    "secret",
    [
        f"postgresql://user:{BEGINS}{'x' * 30}@host",
        f"password='{BEGINS} {'x' * 30}'",
        f"duly_abc123abc123_{BEGINS}{'x' * 37}",
    ],
)
def test_a_secret_at_the_point_of_truncation_is_masked(cut: int, secret: str) -> None:
    assert BEGINS not in masked("token=y " + " " * (cut - 8) + secret)


@pytest.mark.parametrize(
    "part",
    ["password", "password=", "postgres://", "postgres:", "://", "duly_", "token'", "\\", "'", "a", "=", "secret=\\"],
)
def test_masking_takes_linear_time(part: str) -> None:
    text = "= :// duly_ " + part * (MAX_READ_LENGTH // len(part))  # so that every rule is applied
    started_at = time.monotonic()
    masked(text)
    assert time.monotonic() - started_at < 2  # measured: at most 0.2 s


# Docs -----------------------------------------------------------------------------------------------------------------


def test_log_lines_in_the_docs_match_the_real_output() -> None:
    page = (ROOT / "docs" / "logs.md").read_text()
    examples = re.findall(r"```(?:json|text)\n(.*?)```", page, re.DOTALL)

    def write_logs(log: Log) -> None:
        log.info("job.claimed", work_type="mail", rows=20, dsn="postgresql://user:pw@host/db")
        log.warning("database.no_answer", work_type="mail", error=OSError("postgresql://user:pw@host/db is gone"))
        logging.getLogger("psycopg.pool").warning("rejected: %d waiting", 7)

    def without_time(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "", text)

    assert [without_time(example) for example in examples] == [
        without_time(capture(write_logs, form)) for form in FORMS
    ]
