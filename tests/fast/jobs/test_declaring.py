"""Declarations and enqueue options are validated at once; errors name the fix."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, get_origin, get_type_hints
from uuid import UUID

import psycopg
import pytest
from sqlalchemy import create_engine

import duly
from duly.app import App, AsyncEnqueuer
from duly.backoff import Backoff, BackoffPolicy
from duly.errors import InvalidArgument
from tests.support.jobs.actions import JobActions

Admin = psycopg.Connection[Any]
app = App()


@app.job("thumbnail")
def thumbnail(ctx: duly.Context, image_id: str) -> None:
    """A handler that is never performed."""


# Options that do not exist --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("dely", r"unknown option dely of thumbnail\.on\(\); did you mean delay\?"),
        ("Key", r"did you mean key\?"),
        ("max_attempts", r"max_attempts.*declare it: @app\.job\('thumbnail', max_attempts=\.\.\.\)"),
        ("xyzzy", "options are delay, key, org, priority, requested_by, run_at"),
    ],
)
def test_unknown_enqueue_option_is_refused_with_the_nearest_name(option: str, answer: str, admin: Admin) -> None:
    unknown: Any = {option: 1}
    with pytest.raises(InvalidArgument, match=answer):
        thumbnail.on(admin, **unknown)


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("max_attempt", r"unknown option max_attempt of @app\.job\('late'\); did you mean max_attempts\?"),
        ("delay", r"delay.*pass it when you enqueue: late\.on\(tx, delay=\.\.\.\)"),
        ("xyzzy", "options are backoff, concurrency, isolate, max_attempts"),
    ],
)
def test_unknown_declaration_option_is_refused_with_the_nearest_name(option: str, answer: str) -> None:
    unknown: Any = {option: 1}
    with pytest.raises(InvalidArgument, match=answer):
        App().job("late", **unknown)


# Declarations ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"type": "a b"}, r"job type 'a b': must have 1 to 100 characters"),
        ({"type": ""}, "must have 1 to 100 characters"),
        ({"type": "x" * 101}, "must have 1 to 100 characters"),
        ({"type": 7}, "job type 7: must be a string"),
        ({"queue": "the images"}, r"queue='the images' of the job type 'good': must have 1 to 100 characters"),
        ({"max_attempts": 0}, "max_attempts=0 of the job type 'good': must be an integer between 1 and 1000"),
        ({"max_attempts": 1001}, "max_attempts=1001"),
        ({"max_attempts": True}, "max_attempts=True"),
        ({"max_attempts": "5"}, "max_attempts='5'"),
        ({"priority": 999}, "priority=999 of the job type 'good': must be an integer between -100 and 100"),
        ({"priority": 1.5}, "priority=1.5"),
        ({"retain": "1h"}, "retain='1h' of the job type 'good': must be between 1 and 3660 days"),
        ({"retain": timedelta(days=4000)}, "retain=.*must be between 1 and 3660 days"),
        ({"timeout": 0}, "timeout=0 of the job type 'good': must be more than 0"),
        ({"timeout": "soon"}, "timeout='soon' of the job type 'good'"),
        ({"timeout": object()}, "timeout=.*of the job type 'good'"),
        ({"concurrency": 0}, "concurrency=0 of the job type 'good'"),
        ({"memory_bytes": 0}, "memory_bytes=0 of the job type 'good'"),
        ({"backoff": "linear"}, "backoff 'linear': must be none, fixed or exp"),
    ],
)
def test_invalid_declaration_option_is_refused_at_declaration(options: dict[str, Any], answer: str) -> None:
    given: dict[str, Any] = {"type": "good", **options}
    with pytest.raises(InvalidArgument, match=answer):
        App().job(**given)


def nothing() -> None: ...


def no_context(_name: str) -> None: ...


def neither_name_nor_annotation(_name: Any, _rest: int = 1) -> None: ...


def only_by_name(*, _ctx: duly.Context) -> None: ...


def in_words(_it: "duly.Context", _name: str) -> None: ...


def by_name(ctx: Any, name: str) -> None: ...


def by_annotation(it: duly.Context, name: str) -> None: ...


def ignored(_: Any) -> None: ...


@pytest.mark.parametrize("function", [nothing, no_context, neither_name_nor_annotation, only_by_name])
def test_a_function_that_does_not_take_the_context_first_is_refused(function: Callable[..., None]) -> None:
    with pytest.raises(InvalidArgument, match=r"job type 'good'.*first parameter.*ctx: duly\.Context"):
        App().job("good")(function)


@pytest.mark.parametrize("function", [in_words, by_name, by_annotation, ignored])
def test_context_parameter_is_recognized_by_annotation_or_name(function: Callable[..., None]) -> None:
    App().job("good")(function)


# Backoff --------------------------------------------------------------------------------------------------------------


def test_backoff_accepts_its_policy_as_a_string() -> None:
    assert duly.Backoff("fixed", 1, 1) == Backoff(BackoffPolicy.FIXED, 1.0, 1.0)
    assert duly.Backoff("fixed", 1, 1).policy is BackoffPolicy.FIXED
    assert duly.Backoff("none").delay_seconds(0) == 0


def test_a_declared_backoff_reaches_the_job(jobs: JobActions) -> None:
    mine = App()

    @mine.job("slow", backoff=duly.Backoff("fixed", 1, 2))
    def slow(ctx: duly.Context) -> None: ...

    slow.on(jobs.admin).enqueue()
    columns = jobs.columns("backoff_policy", "backoff_base_seconds", "backoff_cap_seconds")
    assert columns == [("fixed", 1.0, 2.0)]


@pytest.mark.parametrize("policy", ["linear", "", None, 7])
def test_unknown_backoff_policy_is_refused_at_construction(policy: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be none, fixed or exp"):
        duly.Backoff(policy)


@pytest.mark.parametrize("base", ["1", None, True])
def test_backoff_base_that_is_not_a_number_is_refused_at_construction(base: Any) -> None:
    with pytest.raises(InvalidArgument, match="base"):
        duly.Backoff("fixed", base, 9)


# Times ----------------------------------------------------------------------------------------------------------------


def test_run_at_without_a_time_zone_is_refused(admin: Admin) -> None:
    noon = datetime(2026, 12, 1, 12, 0)  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match=r"run_at=2026-12-01 12:00:00 has no time zone.*tzinfo"):
        thumbnail.on(admin, run_at=noon).enqueue("a1")
    thumbnail.on(admin, run_at=noon.replace(tzinfo=UTC)).enqueue("a1")
    assert admin.execute("select run_at from ledger.job").fetchall() == [(noon.replace(tzinfo=UTC),)]


def test_batch_with_one_run_at_without_a_time_zone_is_refused(admin: Admin) -> None:
    times = [datetime(2026, 12, 1, tzinfo=UTC), datetime(2026, 12, 1)]  # noqa: DTZ001
    with pytest.raises(InvalidArgument, match="has no time zone"):
        thumbnail.on(admin).enqueue_many([{"image_id": "a1"}, {"image_id": "a2"}], run_ats=times)
    assert admin.execute("select count(*) from ledger.job").fetchone() == (0,)


def test_run_at_together_with_delay_is_refused(admin: Admin) -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        thumbnail.on(admin, run_at=datetime.now(UTC), delay="1h").enqueue("a1")


# Connections ----------------------------------------------------------------------------------------------------------


def of_class(module: str, name: str) -> object:
    """Create an instance of a class with this name, of a library that need not be installed."""
    return type(name, (), {"__module__": module})()


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        (None, "not None"),
        ("postgresql://localhost/shop", "not a string; connect first"),
        (
            of_class("pg8000.dbapi", "Connection"),
            r"not pg8000\.dbapi\.Connection; with another driver.*ledger\.enqueue",
        ),
        (of_class("django.db.backends.utils", "CursorWrapper"), r"Django.*pass django\.db\.connection"),
        (of_class("psycopg_pool.pool", "ConnectionPool"), r"psycopg_pool\.pool\.ConnectionPool; pass a connection"),
        (of_class("asyncpg.pool", "Pool"), r"asyncpg\.pool\.Pool; pass a connection"),
        (create_engine("postgresql+psycopg://"), "engine.*begin"),
        (object(), "not object"),
    ],
)
def test_unsupported_connection_is_refused_with_its_type(given: Any, answer: str) -> None:
    with pytest.raises(InvalidArgument, match=answer) as refusal:
        thumbnail.on(given)
    for name in ("psycopg 3", "psycopg2", "asyncpg", "SQLAlchemy", "Django"):
        assert name in str(refusal.value)


def test_sqlalchemy_over_another_driver_is_refused_with_the_urls_to_use() -> None:
    lite = create_engine("sqlite://")
    with (
        contextlib.closing(lite.connect()) as connection,
        pytest.raises(InvalidArgument, match=r"over pysqlite.*postgresql\+psycopg://, postgresql\+asyncpg://"),
    ):
        thumbnail.on(connection).enqueue("a1")
    lite.dispose()


def test_no_library_of_a_caller_is_imported() -> None:
    program = (
        "import sys, duly; from duly.app import App; App();"
        "print(sorted({'sqlalchemy', 'django', 'asyncpg', 'psycopg2'} & sys.modules.keys()))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


# Types and names ------------------------------------------------------------------------------------------------------


def test_enqueue_on_an_async_connection_is_typed_as_a_coroutine() -> None:
    assert get_origin(get_type_hints(AsyncEnqueuer.enqueue)["return"]) is Coroutine


def test_enqueue_returns_the_id_of_the_job(admin: Admin) -> None:
    made = thumbnail.on(admin, key="k").enqueue("a1")
    again = thumbnail.on(admin, key="k").enqueue("a1")
    assert isinstance(made.job_id, UUID)
    assert made.job_id == again.job_id == made.row


def test_the_package_lists_its_public_names() -> None:
    assert dir(duly) == sorted(duly.__all__)
