"""The test helpers for users, and the pytest plugin in a project of its own."""

import subprocess
import tomllib
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import duly
from duly.errors import InvalidArgument, Misconfigured, NotATestDatabase
from duly.launcher import ROOT
from duly.testing import Clock, assert_enqueued, assert_not_enqueued, drain, perform, shared_directory
from tests.support.processes import PYTHON, plain_environment
from tests.support.shop import app as shop

app = duly.App()
OTHER_ORG = UUID(int=7)
PYTEST = (*PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider")


@app.job("thumbnail", queue="images")
async def thumbnail(ctx: duly.Context, image_id: str, size: int = 256, tags: tuple[str, ...] = ()) -> object:
    """Return the arguments, asynchronously."""
    await ctx.progress("drawing", 50)
    return {"image": image_id, "size": size, "tags": tags, "attempt": ctx.attempt}


@app.job("plain", max_attempts=7)
def plain(ctx: duly.Context, say: str = "") -> object:
    """Return or raise the outcome that the arguments name."""
    ctx.progress("thinking")
    match say:
        case "later":
            return duly.Later(3600)
        case "never":
            return duly.GiveUp("NEVER", "not like this")
        case "oops":
            raise RuntimeError("oops")
        case _:
            return (ctx.attempt, ctx.max_attempts, str(ctx.org_id))


@app.job("chain")
async def chain(ctx: duly.Context, links: int) -> None:
    """Enqueue the next job of the same type."""
    async with ctx.transaction() as tx:
        if links:
            await chain.on(tx).enqueue(links - 1)


@app.job("writes")
def writes(ctx: duly.Context) -> None:
    """Use a transaction."""
    with ctx.transaction():
        pass


# Was it asked for? ----------------------------------------------------------------------------------------------------

Opens: TypeAlias = Callable[[str], AbstractAsyncContextManager[Any]]


def alchemy(dsn: str) -> str:
    with psycopg.connect(dsn) as connection:
        info = connection.info
        return f"postgresql+psycopg://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"


@asynccontextmanager
async def psycopg_sync(dsn: str) -> AsyncGenerator[Any, None]:
    with psycopg.connect(dsn) as connection:
        yield connection


@asynccontextmanager
async def psycopg_async(dsn: str) -> AsyncGenerator[Any, None]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_connection(dsn: str) -> AsyncGenerator[Any, None]:
    with create_engine(alchemy(dsn), poolclass=NullPool).begin() as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_session(dsn: str) -> AsyncGenerator[Any, None]:
    with Session(create_engine(alchemy(dsn), poolclass=NullPool)) as session, session.begin():
        yield session


@asynccontextmanager
async def sqlalchemy_async_connection(dsn: str) -> AsyncGenerator[Any, None]:
    async with create_async_engine(alchemy(dsn), poolclass=NullPool).begin() as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_async_session(dsn: str) -> AsyncGenerator[Any, None]:
    async with AsyncSession(create_async_engine(alchemy(dsn), poolclass=NullPool)) as session, session.begin():
        yield session


OPENERS = (
    psycopg_sync,
    psycopg_async,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_async_connection,
    sqlalchemy_async_session,
)


@pytest.fixture(params=OPENERS, ids=lambda each: each.__name__)
def opens(request: pytest.FixtureRequest) -> Opens:
    """Return each kind of connection in turn."""
    return request.param


async def now(answer: Any) -> Any:
    """Return a value, awaited if needed."""
    return await answer if hasattr(answer, "__await__") else answer


async def enqueue(tx: Any, of: Any, *args: Any, size: int | None = None, **when: Any) -> None:
    """Enqueue a job on any kind of connection."""
    await now(of.on(tx, **when).enqueue(*args, **({} if size is None else {"size": size})))


async def test_assert_enqueued_finds_a_job_inside_and_after_its_transaction(opens: Opens, duly_database: str) -> None:
    async with opens(duly_database) as tx:
        await now(assert_not_enqueued(tx, thumbnail))
        await enqueue(tx, thumbnail, "a1", key="order:42", size=64)
        await now(assert_enqueued(tx, thumbnail))
        await now(assert_enqueued(tx, thumbnail, "a1"))
        await now(assert_enqueued(tx, thumbnail, size=64, key="order:42"))
        await now(assert_enqueued(tx, thumbnail, size=65, times=0))
        with psycopg.connect(duly_database) as other:
            assert_not_enqueued(other, thumbnail)
    with psycopg.connect(duly_database) as other:
        assert_enqueued(other, thumbnail, "a1")


async def test_failed_assert_enqueued_lists_the_existing_jobs(opens: Opens, duly_database: str) -> None:
    async with opens(duly_database) as tx:
        with pytest.raises(
            AssertionError, match=r"0 jobs are queued, expected 1: 'thumbnail' with {}; existing jobs:\n  none"
        ):
            await now(assert_enqueued(tx, thumbnail))
        await enqueue(tx, plain, "x")
        await enqueue(tx, thumbnail, "b2", key="k1")
        with pytest.raises(AssertionError) as failure:
            await now(assert_enqueued(tx, thumbnail, "a1", key="k1"))
    assert str(failure.value).splitlines() == [
        "0 jobs are queued, expected 1: 'thumbnail' with {\"image_id\": \"a1\"} under the key 'k1'; existing jobs:",
        '  thumbnail  queued  {"image_id": "b2"}  key k1',
        '  plain  queued  {"say": "x"}',
    ]


async def test_assert_enqueued_works_under_row_security_and_keeps_the_tenant(opens: Opens, duly_database: str) -> None:
    with psycopg.connect(duly_database, autocommit=True) as admin:
        admin.execute("alter role duly_api login")
    async with opens(make_conninfo(duly_database, user="duly_api")) as tx:
        await enqueue(tx, plain, org=OTHER_ORG)
        await now(assert_enqueued(tx, plain, org=OTHER_ORG))
        await now(assert_not_enqueued(tx, plain))
        assert await tenant_of(tx) in (None, "")
        await set_tenant(tx, OTHER_ORG)
        await now(assert_not_enqueued(tx, plain))
        assert await tenant_of(tx) == str(OTHER_ORG)


async def tenant_of(tx: Any) -> str | None:
    return (await run(tx, "select current_setting('app.current_org_id', true)")).fetchone()[0]


async def set_tenant(tx: Any, org: UUID) -> None:
    await run(tx, f"select set_config('app.current_org_id', '{org}', true)")


async def run(tx: Any, statement: str) -> Any:
    """Execute a statement on any kind of connection, and fetch its rows."""
    if isinstance(tx, Session | AsyncSession):
        tx = await now(tx.connection())
    if isinstance(tx, psycopg.Connection):
        return Read(tx.execute(statement.encode()).fetchone())
    if isinstance(tx, psycopg.AsyncConnection):
        return Read(await (await tx.execute(statement.encode())).fetchone())
    return await now(tx.exec_driver_sql(statement))


class Read:
    """A fetched row."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def fetchone(self) -> Any:
        return self.row


def test_duly_database_is_a_url_that_sqlalchemy_accepts(duly_database: str) -> None:
    assert make_url(duly_database).database
    engine = create_engine(duly_database)
    with engine.connect() as connection:
        assert connection.execute(text("select count(*) from ledger.job")).scalar() == 0
    engine.dispose()


@pytest.mark.parametrize("autocommit", [True, False])
def test_assert_not_enqueued_opens_no_transaction(duly_database: str, autocommit: bool) -> None:
    with psycopg.connect(duly_database, autocommit=autocommit) as connection:
        assert_not_enqueued(connection, plain)
        assert connection.info.transaction_status is TransactionStatus.IDLE


def test_assert_enqueued_ignores_finished_jobs(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        plain.on(tx).enqueue()
    drain(app, duly_database)
    with psycopg.connect(duly_database) as tx, pytest.raises(AssertionError, match="plain  succeeded"):
        assert_enqueued(tx, plain)


def test_assert_enqueued_compares_the_exact_number_of_jobs(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        for _ in range(30):
            plain.on(tx).enqueue()
        assert_enqueued(tx, plain, times=30)
        with pytest.raises(AssertionError, match="30 jobs are queued, expected 29"):
            assert_enqueued(tx, plain, times=29)


def test_assert_enqueued_refuses_arguments_that_the_handler_does_not_have(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx, pytest.raises(InvalidArgument, match="no such arguments"):
        assert_enqueued(tx, plain, image_id="a1")


# What does its handler say? -------------------------------------------------------------------------------------------


def test_perform_returns_the_outcome_or_raises_the_exception_of_the_handler() -> None:
    assert perform(plain, "later") == duly.Later(3600)
    assert perform(plain, say="never") == duly.GiveUp("NEVER", "not like this")
    with pytest.raises(RuntimeError, match="oops"):
        perform(plain, "oops")


def test_perform_passes_arguments_and_results_as_json() -> None:
    outcome = perform(thumbnail, "a1", tags=("x", "y"), attempt=2)
    assert outcome == duly.Done({"image": "a1", "size": 256, "tags": ["x", "y"], "attempt": 2})
    with pytest.raises(InvalidArgument):
        perform(thumbnail, object())
    with pytest.raises(InvalidArgument, match="cannot be called with these arguments"):
        perform(thumbnail)


def test_perform_builds_the_context_from_the_declaration() -> None:
    assert perform(plain) == duly.Done([0, 7, str(app.org)])
    assert perform(plain, attempt=1, max_attempts=2, org=OTHER_ORG) == duly.Done([1, 2, str(OTHER_ORG)])


async def test_perform_works_inside_a_running_event_loop() -> None:
    assert perform(thumbnail, "a1") == duly.Done({"image": "a1", "size": 256, "tags": [], "attempt": 0})
    assert perform(plain, "later") == duly.Later(3600)


def test_perform_runs_an_isolated_handler_in_this_process() -> None:
    assert perform(shop.types["alone"], "well") == duly.Done("alone well")


def test_perform_refuses_a_handler_that_needs_a_database_and_suggests_drain() -> None:
    for needy in (writes, chain):
        with pytest.raises(Misconfigured, match=r"without a database.*drain"):
            perform(needy, *([1] if needy is chain else []))


async def test_drain_works_inside_a_running_event_loop(duly_database: str) -> None:
    async with await psycopg.AsyncConnection.connect(duly_database) as tx:
        await thumbnail.on(tx).enqueue("a1")
        await assert_enqueued(tx, thumbnail)
        assert drain(app, duly_database) == []  # not committed
        await tx.commit()
        (job,) = drain(app, duly_database)
    assert (job.status, job.stage, job.progress) == ("succeeded", "drawing", 50)


def test_drain_stops_an_endless_chain_and_names_its_jobs(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        chain.on(tx).enqueue(1000)
    with pytest.raises(AssertionError, match=r"still due after 3 cycles.*\n  chain  succeeded  {\"links\": 998}"):
        drain(app, duly_database, max_cycles=3)


def test_drain_runs_with_the_privileges_of_a_worker(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        plain.on(tx).enqueue()
        tx.execute("revoke execute on all functions in schema ledger from duly_worker")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        drain(app, duly_database)


def test_drain_and_clock_refuse_a_database_without_a_test_clock(database: str) -> None:
    with psycopg.connect(database) as tx:
        plain.on(tx).enqueue()
    with pytest.raises(NotATestDatabase, match="has no test clock"):
        drain(app, database)
    with pytest.raises(NotATestDatabase, match="install_test_clock"):
        Clock(database).advance("1s")
    with psycopg.connect(database) as tx:
        assert_enqueued(tx, plain)


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duration", ["6h", timedelta(hours=6), 21_600])
def test_clock_advances_by_the_given_duration(duly_clock: Clock, duration: Any) -> None:
    started_at = duly_clock.now()
    assert timedelta(hours=6) <= duly_clock.advance(duration) - started_at < timedelta(hours=6, minutes=5)


def test_clock_change_is_visible_to_others_after_commit(duly_database: str, duly_clock: Clock) -> None:
    started_at = duly_clock.now()
    with psycopg.connect(duly_database) as tx:
        Clock(tx).advance("1d")
        assert duly_clock.now() - started_at < timedelta(hours=1)
    assert duly_clock.now() - started_at > timedelta(days=1)


# The plugin, in a project of its own ----------------------------------------------------------------------------------


def pytest_in(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in another project, with only the given plugins."""
    return subprocess.run(
        [*PYTEST, "--rootdir", directory, "-c", "/dev/null", *arguments],
        env=plain_environment(PYTHONPATH=str(directory), **environment),
        cwd=directory,
        capture_output=True,
        text=True,
    )


def test_last_user_removes_the_shared_directory(tmp_path: Path) -> None:
    shared = tmp_path / "duly-tests-shared"
    with shared_directory(shared) as first:
        (first / "something").touch()
        with shared_directory(shared) as second:
            assert (second / "something").exists()
        assert (first / "something").exists()
    assert not shared.exists()


ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
WITH_OURS = ("-p", "duly.testing.plugin", "-W", "error")


def test_unused_plugin_imports_no_heavy_module(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    assert not {'psycopg', 'sqlalchemy', 'pydantic'} & set(sys.modules)\n"
    )
    ran = pytest_in(tmp_path, *WITH_OURS, **ALONE)
    assert "1 passed" in ran.stdout, ran.stdout + ran.stderr


def test_pytest_finds_the_plugin_by_its_entry_point(tmp_path: Path) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    metadata = tmp_path / "duly-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: duly\nVersion: 0.1.0\n")
    points = "".join(f"{name} = {module}\n" for name, module in declared.items())
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{points}")
    ran = pytest_in(tmp_path, "--fixtures", "-p", "duly", "-W", "error", **ALONE)
    assert "duly_database --" in ran.stdout, ran.stdout + ran.stderr


def test_drain_with_raising_raises_the_handlers_exception(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        plain.on(tx).enqueue(say="oops")
    with pytest.raises(RuntimeError, match="oops") as caught:
        drain(app, duly_database, raising=True)
    assert caught.traceback[-1].name == "plain"


def test_drain_with_raising_raises_the_outcome_without_an_exception(duly_database: str) -> None:
    with psycopg.connect(duly_database) as tx:
        plain.on(tx).enqueue(say="never")
    with pytest.raises(duly.GiveUp, match="NEVER: not like this"):
        drain(app, duly_database, raising=True)
