"""A line of the log: one shape for everybody, never a failure, never too long, and never a secret."""

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
    MAX_READ_LENGTH,
    MAX_TRACE_LENGTH,
    WITH_ADDRESSES,
    Log,
    Output,
    State,
    configure_logs,
    get_log,
    masked,
)
from duly.settings import Settings
from tests.support.processes import PYTHON, plain_environment

Form = Literal["auto", "json", "pretty"]
FORMS: tuple[Form, Form] = ("json", "pretty")
BEGINS, ENDS = "s3cr3t", "h1dd3n"  # a planted secret begins and ends so; neither may be seen

log = get_log("duly.example")  # made before anything is configured, as in every module


@pytest.fixture(autouse=True)
def as_it_was() -> Generator[None, None, None]:
    """What is configured here is undone: the process has other tests to run."""
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
        late.obey(setup)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def settings(form: Form = "json", level: str = "debug") -> Settings:
    return Settings().model_copy(update={"log_format": form, "log_level": level})


def written(say: Callable[[Log], object], form: Form = "json", level: str = "debug") -> str:
    """Everything that is written while this is said."""
    stream = io.StringIO()
    logging.getLogger().handlers.clear()  # pytest's own would stumble over what ours must bear
    configure_logs(settings(form, level), stream)
    say(log)
    return stream.getvalue()


def line_of(say: Callable[[Log], object]) -> dict[str, Any]:
    """The one line of JSON that is written while this is said."""
    text = written(say)
    assert text.endswith("\n")
    assert text.count("\n") == 1
    assert len(text.encode()) <= MAX_LINE_LENGTH
    return json.loads(text)


def raised(error: BaseException) -> BaseException:
    """The error, with a trace."""
    try:
        raise error
    except BaseException as caught:
        return caught


# The shape ------------------------------------------------------------------------------------------------------------


def test_a_line_has_its_four_keys_first_and_then_what_was_bound() -> None:
    before = datetime.now(UTC)
    line = line_of(lambda log: log.bind(kind="mail").info("claimed", rows=20))
    assert list(line) == ["ts", "level", "event", "logger", "kind", "rows"]
    assert line | {"ts": ""} == {
        "ts": "",
        "level": "info",
        "event": "claimed",
        "logger": "duly.example",
        "kind": "mail",
        "rows": 20,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["ts"])
    assert abs(datetime.fromisoformat(line["ts"]) - before) < timedelta(minutes=1)


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_every_level_has_its_name(level: str) -> None:
    assert line_of(lambda log: getattr(log, level)("said"))["level"] == level


def test_lines_below_the_level_are_not_written() -> None:
    def say(log: Log) -> None:
        log.debug("no")
        log.info("no")
        logging.getLogger("other").info("no")
        log.warning("yes")
        logging.getLogger("other").warning("yes")

    assert [json.loads(line)["event"] for line in written(say, level="warning").splitlines()] == ["yes", "yes"]


def test_what_is_bound_to_the_context_is_in_every_line() -> None:
    structlog.contextvars.bind_contextvars(job="j1")
    assert line_of(lambda log: log.info("said"))["job"] == "j1"
    assert line_of(lambda _: logging.getLogger("other").info("said"))["job"] == "j1"


def test_values_are_told_plainly_where_json_has_no_word_for_them() -> None:
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
    line = line_of(lambda log: log.info("said", **values))
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


def test_a_callers_value_under_a_name_of_ours_steps_aside() -> None:
    line = line_of(lambda log: log.info("said", ts=1, level="high", trace="x", method_name="y"))
    assert line["level"] == "info"
    assert (line["ts_"], line["level_"], line["trace_"], line["method_name"]) == (1, "high", "x", "y")


def test_an_event_that_is_no_text_is_told_as_it_looks() -> None:
    assert line_of(lambda log: log.info({"a": 1}))["event"] == "{'a': 1}"  # pyright: ignore[reportArgumentType]


# Exceptions -----------------------------------------------------------------------------------------------------------


def say_with_exception(log: Log, error: BaseException) -> None:
    try:
        raise error
    except type(error):
        log.exception("failed", kind="mail")


def say_with_instance(log: Log, error: BaseException) -> None:
    log.error("failed", kind="mail", exc_info=raised(error))


def say_with_triple(log: Log, error: BaseException) -> None:
    log.error("failed", kind="mail", exc_info=(type(error), raised(error), error.__traceback__))


@pytest.mark.parametrize("say", [say_with_exception, say_with_instance, say_with_triple])
def test_an_exception_is_its_type_its_message_and_its_trace(say: Callable[[Log, BaseException], None]) -> None:
    line = line_of(lambda log: say(log, ValueError("no good")))
    assert list(line) == ["ts", "level", "event", "logger", "kind", "error", "trace"]
    assert line["error"] == {"type": "ValueError", "message": "no good"}
    assert line["trace"].startswith("Traceback (most recent call last):\n")
    assert line["trace"].endswith("\nValueError: no good")


def test_an_exception_of_a_module_has_its_name() -> None:
    assert line_of(lambda log: log.error("failed", error=json.JSONDecodeError("bad", "x", 0)))["error"] == {
        "type": "json.decoder.JSONDecodeError",
        "message": "bad: line 1 column 1 (char 0)",
    }


def test_an_error_is_always_an_object() -> None:
    assert line_of(lambda log: log.warning("said", error="too late"))["error"] == {"message": "too late"}
    assert line_of(lambda log: log.warning("said", error={"code": 5}))["error"] == {"code": 5}
    both = line_of(lambda log: log.error("said", error="mine", exc_info=raised(KeyError("theirs"))))
    assert both["error"] == {"type": "KeyError", "message": "'theirs'"}
    assert both["error_"] == "mine"


def test_without_an_exception_there_is_no_error() -> None:
    for nothing in (None, False, True, (None, None, None)):
        assert list(line_of(lambda log, nothing=nothing: log.info("said", exc_info=nothing))) == [
            "ts",
            "level",
            "event",
            "logger",
        ]


def test_a_long_trace_is_cut_in_its_middle() -> None:
    error: BaseException = ValueError("the beginning")
    for number in range(100):
        following = ValueError(f"number {number}")
        following.__cause__ = error
        error = raised(following)
    trace = line_of(lambda log: log.error("failed", exc_info=error))["trace"]
    assert MAX_TRACE_LENGTH // 2 < len(trace) <= MAX_TRACE_LENGTH + 3
    assert trace.startswith("ValueError: the beginning")
    assert "\n…\n" in trace
    assert trace.endswith("ValueError: number 99")


# The standard library -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uvicorn.error", "uvicorn.access", "psycopg.pool", "asyncio", "alembic.runtime"])
def test_a_library_writes_lines_of_the_same_shape(name: str) -> None:
    logger = logging.getLogger(name)
    line = line_of(lambda _: logger.warning("pool %s: %d left", "p1", 3, extra={"left": 3, "color_message": "x"}))
    assert list(line) == ["ts", "level", "event", "logger", "left"]
    assert line | {"ts": ""} == {"ts": "", "level": "warning", "event": "pool p1: 3 left", "logger": name, "left": 3}


def test_what_other_handlers_note_on_a_record_is_not_told_twice() -> None:
    def say(_: Log) -> None:
        other = logging.StreamHandler(io.StringIO())
        other.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger("other").addHandler(other)
        logging.getLogger("other").info("said")
        logging.getLogger("other").removeHandler(other)

    assert list(line_of(say)) == ["ts", "level", "event", "logger"]
    assert line_of(lambda log: log.info("said", message="mine"))["message"] == "mine"


def test_a_librarys_exception_is_told_like_ours() -> None:
    line = line_of(lambda _: logging.getLogger("asyncio").error("lost", exc_info=raised(OSError("gone"))))
    assert line["error"] == {"type": "OSError", "message": "gone"}
    assert line["trace"].endswith("OSError: gone")


def test_a_librarys_text_that_does_not_fit_its_arguments_is_told_as_it_is() -> None:
    assert line_of(lambda _: logging.getLogger("other").warning("%d rows", "many"))["event"] == "('%d rows', ('many',))"


@pytest.mark.parametrize(("number", "level"), [(5, "debug"), (25, "info"), (35, "warning"), (70, "critical")])
def test_a_librarys_own_level_has_the_name_of_the_next_below(number: int, level: str) -> None:
    logger = logging.getLogger("other.levels")
    logger.setLevel(1)
    assert line_of(lambda _: logger.log(number, "said"))["level"] == level


def test_a_library_that_brought_a_handler_writes_once_and_through_ours() -> None:
    other = io.StringIO()
    logging.getLogger("uvicorn").addHandler(logging.StreamHandler(other))
    logging.getLogger("uvicorn.access").propagate = False
    assert line_of(lambda _: logging.getLogger("uvicorn.access").info("GET /"))["event"] == "GET /"
    assert other.getvalue() == ""


@pytest.mark.parametrize("level", ["debug", "info"])
@pytest.mark.parametrize(
    "name", ["httpx2", "httpcore2.http11", "urllib3.connectionpool", "requests_oauthlib.oauth1_auth", "botocore.auth"]
)
def test_what_libraries_say_of_every_address_is_not_written_however_much_is_asked_for(name: str, level: str) -> None:
    def say(_: Log) -> None:
        for word in ("debug", "info"):
            getattr(logging.getLogger(name), word)("POST %s", "https://example.com/hooks/h1dd3n")
        logging.getLogger(name).error("it broke")

    assert [json.loads(line)["event"] for line in written(say, level=level).splitlines()] == ["it broke"]


def test_a_library_that_says_addresses_is_held_to_the_level_like_all_others() -> None:
    def say(_: Log) -> None:
        logging.getLogger("httpx2").warning("no")
        logging.getLogger("httpx2").error("yes")

    assert [json.loads(line)["event"] for line in written(say, level="error").splitlines()] == ["yes"]


def test_structlog_itself_writes_lines_of_the_same_shape() -> None:
    line = line_of(lambda _: structlog.get_logger().info("said", rows=1))
    assert list(line) == ["ts", "level", "event", "logger", "rows"]
    assert line["logger"] == "root"


# Configuring ----------------------------------------------------------------------------------------------------------


def test_configuring_again_replaces_what_was() -> None:
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


def test_handlers_of_others_are_left_alone() -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logs(settings(), io.StringIO())
    configure_logs(settings(), io.StringIO())
    root = logging.getLogger()
    assert other in root.handlers
    assert sum(isinstance(handler, Output) for handler in root.handlers) == 1


def test_one_name_is_one_logger_which_can_be_sent_to_another_process() -> None:
    assert get_log("duly.example") is log
    assert pickle.loads(pickle.dumps(log)) is log  # noqa: S301 (our own)


def test_lines_go_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(settings())
    log.info("said")
    out, err = capsys.readouterr()
    assert (json.loads(out)["event"], err) == ("said", "")


def test_until_somebody_configures_only_warnings_are_written_and_to_stderr() -> None:
    code = "from duly.logging import get_log; log = get_log('x'); log.info('no'); log.warning('yes', dsn='x')"
    ran = subprocess.run([*PYTHON, "-c", code], capture_output=True, text=True, check=True, env=plain_environment())
    assert ran.stdout == ""
    assert [json.loads(line)["event"] for line in ran.stderr.splitlines()] == ["yes"]


def test_auto_is_json_where_nobody_watches() -> None:
    assert json.loads(written(lambda log: log.info("said"), "auto"))["event"] == "said"


@pytest.mark.parametrize("no_color", ["", "1"])
def test_auto_is_pretty_on_a_terminal(no_color: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    master, terminal = os.openpty()
    with open(master, "rb", buffering=0) as watched, open(terminal, "w") as stream:  # noqa: PTH123 (descriptors)
        configure_logs(settings("auto"), stream)
        log.info("said", rows=1)
        shown = watched.read(1000).decode()
    assert ("\x1b[" in shown) is (not no_color)
    assert re.search(r"^\S*\d{4}-\d\d-\d\dT\S+Z\S* \[\S*info", shown)


# For people -----------------------------------------------------------------------------------------------------------


def test_a_pretty_line_has_its_keys_in_order_and_its_trace_below() -> None:
    text = written(
        lambda log: log.error("settle failed", zeta=1, alpha="b", exc_info=raised(ValueError("no"))), "pretty"
    )
    first, second, *_, last = text.splitlines()
    ending = "[duly.example] zeta=1 alpha=b error='ValueError: no'"
    assert re.fullmatch(rf"\S+Z \[error    \] settle failed +{re.escape(ending)}", first)
    assert second == "Traceback (most recent call last):"
    assert last == "ValueError: no"


@pytest.mark.parametrize("nasty", ["\n", "\r", "\x1b[2J", "\x9b2J", "\u2028", "\u202e", "\x85"])
def test_nothing_in_a_pretty_line_moves_the_cursor_or_begins_another(nasty: str) -> None:
    values: dict[str, object] = {"plain": f"x{nasty}y", f"k{nasty}": 1, "nested": [f"x{nasty}y"], "error": nasty}
    text = written(lambda log: log.info(f"x{nasty}y", **values), "pretty")
    assert nasty not in text.removesuffix("\n")
    assert len(text.splitlines()) == 1


def test_names_that_the_pretty_renderer_keeps_for_itself_are_no_trouble() -> None:
    text = written(lambda log: log.info("said", stack=1, exception=2, logger_name=3, timestamp=4), "pretty")
    assert "stack_=1 exception_=2" in text
    assert "said" in text


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
def test_huge_values_are_cut(kind: str, form: Form) -> None:
    value = HUGE[kind]()
    text = written(lambda log: log.info("said", value=value, kind="mail"), form)
    assert "could not be written" not in text
    assert len(text.encode()) <= MAX_LINE_LENGTH
    assert "said" in text


def test_a_huge_value_leaves_room_for_what_matters() -> None:
    error = raised(ValueError("m" * 50_000))
    line = line_of(lambda log: log.bind(kind="mail").error("e" * 9_000, value="v" * 50_000, exc_info=error))
    assert line["error"]["type"] == "ValueError"
    assert line["kind"] == "mail"
    assert all(len(text) > 1_000 for text in (line["event"], line["value"], line["error"]["message"], line["trace"]))


def test_a_line_said_with_hardly_any_stack_left_raises_nothing() -> None:
    def down(log: Log) -> None:
        log.info("said")
        down(log)

    def fall(log: Log) -> None:
        with pytest.raises(RecursionError):
            down(log)

    for line in written(fall).splitlines():
        assert json.loads(line)  # though little of it may be left


class Broken(io.StringIO):
    """A stream that fails."""

    def write(self, _: str) -> NoReturn:
        raise BrokenPipeError


def test_a_stream_that_nobody_reads_any_more_stops_nobody() -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, Broken()):
        configure_logs(settings("auto"), stream)
        log.info("said")
        logging.getLogger("other").info("said")


@pytest.mark.parametrize(("form", "wanted"), [("json", "grün"), ("pretty", r"gr\xfcn")])
def test_a_stream_without_our_letters_gets_the_line_all_the_same(form: Form, wanted: str) -> None:
    raw = io.BytesIO()
    configure_logs(settings(form), io.TextIOWrapper(raw, "ascii"))
    log.info("grün")
    assert wanted in raw.getvalue().decode()


def test_lines_of_many_threads_stay_whole() -> None:
    threads, lines = 8, 200
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as reader, open(writing, "w") as stream:  # noqa: PTH123 (descriptors)
        configure_logs(settings(), stream)

        def say(number: int) -> None:
            for nth in range(lines):
                mine = log if nth % 2 else logging.getLogger("duly.example")
                mine.info(f"{number}/{nth} " + "x" * 200)

        sayers = [threading.Thread(target=say, args=(number,)) for number in range(threads)]
        for sayer in sayers:
            sayer.start()
        heard = [json.loads(reader.readline())["event"].split()[0] for _ in range(threads * lines)]
        for sayer in sayers:
            sayer.join()
    assert sorted(heard) == sorted(f"{number}/{nth}" for number in range(threads) for nth in range(lines))


def test_a_line_below_the_level_costs_next_to_nothing() -> None:
    calls = 100_000
    configure_logs(settings(level="info"), io.StringIO())
    call, names = "log.debug('said', kind='mail', rows=1)", {"log": log}
    seconds = min(timeit.repeat(call, timer=time.thread_time, globals=names, number=calls))
    assert seconds / calls < 1e-6  # measured: 0.15 µs


# No line has a secret -------------------------------------------------------------------------------------------------

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
def test_a_secret_is_known_by_its_name(name: str, form: Form) -> None:
    values: dict[str, object] = {name: BEGINS, "nested": [{"deep": {name: [BEGINS]}}]}
    text = written(lambda log: log.bind(**{name: BEGINS}).info("said", **values), form)
    assert BEGINS not in text
    assert text.count("***") == 2


@pytest.mark.parametrize(
    ("text", "wanted"),
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
def test_a_secret_inside_a_text_is_masked(text: str, wanted: str) -> None:
    assert masked(text) == wanted
    assert line_of(lambda log: log.info(text))["event"] == wanted


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
def test_what_is_no_secret_stays(text: str) -> None:
    assert masked(text) == text


@dataclass
class Thing:
    """Something that is told by its repr."""

    value: object


letters = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
some_secret = letters.map(lambda middle: f"{BEGINS}{middle}{ENDS}")
planted = st.one_of(
    some_secret.map(lambda secret: f"postgresql://user:{quote(secret, safe='')}@host/db"),
    some_secret.map(lambda secret: f"postgresql://user:{''.join(secret.split())}@host/db"),
    some_secret.map(lambda secret: make_conninfo(host="host", password=secret, user="user")),
    st.builds(lambda: new_secret()[:18] + BEGINS + "x" * 31 + ENDS),
    st.builds(lambda: new_secret()[:18] + BEGINS + ENDS),
)
around = st.sampled_from(["", " ", "\n", "x", "(", "'", '"', "x" * 5_000, "ü" * 20_000, "\0"])
PLACES: dict[str, Callable[[Log, str], object]] = {
    "event": lambda log, text: log.info(text),
    "value": lambda log, text: log.info("said", value=text),
    "name": lambda log, text: log.info("said", **{text: 1}),
    "nested": lambda log, text: log.info("said", value=[{"a": (text,)}, {text: 1}, {text}]),
    "bytes": lambda log, text: log.info("said", value=text.encode()),
    "repr": lambda log, text: log.info("said", value=Thing([text])),
    "repr of a repr": lambda log, text: log.info("said", value=Thing({"a": repr(text)})),
    "bound": lambda log, text: log.bind(value=text).info("said"),
    "exception": lambda log, text: log.error("said", exc_info=raised(ValueError(text))),
    "cause": lambda log, text: log.error("said", exc_info=raised(ExceptionGroup("g", [KeyError(text)]))),
    "error": lambda log, text: log.error("said", error=OSError(text)),
    "library": lambda _, text: logging.getLogger("other").info("said %s", text),
    "library's misfit": lambda _, text: logging.getLogger("other").info("said %d", text),
    "library's extra": lambda _, text: logging.getLogger("other").info("said", extra={"value": text}),
}


@hypothesis.settings(max_examples=30)  # for each of the places
@given(around, planted, around)
@example("", make_conninfo(password=f"{BEGINS}\\' \" {ENDS}"), "")
@example("", make_conninfo(password=f"{BEGINS}' {ENDS}"), "")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("place", PLACES)
def test_a_planted_secret_is_never_written(place: str, form: Form, before: str, secret: str, after: str) -> None:
    text = written(lambda log: PLACES[place](log, before + secret + after), form)
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
def test_a_secret_that_the_cut_goes_through_is_masked(cut: int, secret: str) -> None:
    assert BEGINS not in masked("token=y " + " " * (cut - 8) + secret)


@pytest.mark.parametrize(
    "part",
    ["password", "password=", "postgres://", "postgres:", "://", "duly_", "token'", "\\", "'", "a", "=", "secret=\\"],
)
def test_masking_takes_time_in_proportion(part: str) -> None:
    text = "= :// duly_ " + part * (MAX_READ_LENGTH // len(part))  # so that every rule looks at it
    began = time.monotonic()
    masked(text)
    assert time.monotonic() - began < 2  # measured: at most 0.2 s


# The page -------------------------------------------------------------------------------------------------------------


def test_the_lines_on_the_page_are_real() -> None:
    page = (ROOT / "docs" / "logs.md").read_text()
    examples = re.findall(r"```(?:json|text)\n(.*?)```", page, re.DOTALL)

    def say(log: Log) -> None:
        log.info("claimed", kind="mail", rows=20, dsn="postgresql://user:pw@host/db")
        log.warning("the database did not answer", kind="mail", error=OSError("postgresql://user:pw@host/db is gone"))
        logging.getLogger("psycopg.pool").warning("rejected: %d waiting", 7)

    def without_time(text: str) -> str:
        return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "", text)

    assert [without_time(example) for example in examples] == [without_time(written(say, form)) for form in FORMS]
