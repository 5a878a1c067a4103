"""One server per test run, a database for every test; what a run shows, and what a test may cost."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest
from psycopg import sql

from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.formatting import COMMAND_VARIABLE
from duly.testing import FOREIGN_DATABASE_VARIABLES, TestDatabases, install_test_clock, plugin, server_for_tests
from duly.testing.databases import database_prefix, remove_server_directory, remove_test_run, shared_directory
from tests.support.database_pool import DatabasePool
from tests.support.invariants import (
    compares_catalogue,
    find_contract_differences,
    find_violations,
    must_keep_invariants,
)
from tests.support.log_setup import restored_logging
from tests.support.progress import Progress
from tests.support.servers import EMBEDDED, NAMES, open_named_server
from tests.support.tiers import Budget, is_fast

if TYPE_CHECKING:
    from tests.support.bot_api import FakeTelegram
    from tests.support.storage.s3_server import S3Server

hypothesis.settings.register_profile("duly", deadline=None)  # the machine may be busy
hypothesis.settings.load_profile("duly")

RUN_HOME = "DULY_TEST_RUN_HOME"
TITLE = "DULY_TEST_TITLE"
MIN_FREE_BYTES = 8 * 1024**3  # a run of everything takes two
CHECKED_MODULES = pytest.StashKey[set[Path]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """What a run is on, and how thorough it is."""
    group = parser.getgroup("duly")
    group.addoption(
        "--server", choices=NAMES, default=EMBEDDED, help="the PostgreSQL to test on; only tests that use it"
    )
    group.addoption("--through-pooler", action="store_true", help="conformance tests through PgBouncer, no others")
    group.addoption("--rounds", type=int, default=1, help="how often every test runs, all in one random order")
    group.addoption(
        "--invariants",
        choices=("module", "test"),
        help="when invariants are asked: once per module (the default in tests/fast), or after every test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Remove every address of a user's database; the first process of a run also makes the directory of its servers."""
    for name in FOREIGN_DATABASE_VARIABLES:
        os.environ.pop(name, None)
    os.environ.pop(COMMAND_VARIABLE, None)  # hints are the same however the tests were called
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, whose children would ignore it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    server_for_tests()
    if not config.pluginmanager.is_registered(plugin):  # its entry point is missing in a checkout that is not installed
        config.pluginmanager.register(plugin, "duly")
    config.pluginmanager.register(Budget())
    config.stash[CHECKED_MODULES] = set()
    if not hasattr(config, "workerinput"):
        os.environ[RUN_HOME] = str(open_directory("duly-tests-"))


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """The first process shows how far the run is, unless pytest's own output is wanted."""
    config = session.config
    terminal: pytest.TerminalReporter | None = config.pluginmanager.get_plugin("terminalreporter")
    if terminal and not hasattr(config, "workerinput") and not config.option.verbose:
        progress = Progress(terminal, os.environ.get(TITLE, "tests"))
        config.pluginmanager.register(progress)


def pytest_unconfigure(config: pytest.Config) -> None:
    """The first process of a run removes what the run left behind."""
    if not hasattr(config, "workerinput"):
        remove_test_run(Path(os.environ.pop(RUN_HOME)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test as often as `--rounds` says."""
    if (rounds := metafunc.config.option.rounds) > 1:
        metafunc.fixturenames.append("nth")
        metafunc.parametrize("nth", range(1, rounds + 1))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long, so that no process runs alone at the end; on a named server, run what uses it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    fixture = "workers" if config.option.through_pooler else "duly_server" if config.option.server != EMBEDDED else None
    if fixture and (others := [item for item in items if fixture not in getattr(item, "fixturenames", ())]):
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if fixture in getattr(item, "fixturenames", ())]


def open_directory(prefix: str) -> Path:
    """A new directory that an unprivileged server account may enter, short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=choose_server_directory()))
    directory.chmod(0o755)
    return directory


def choose_server_directory() -> Path:
    """Where servers live: in memory, where a copy of a database takes a tenth of the time, if there is plenty."""
    in_memory = Path("/dev/shm")
    has_room = os.access(in_memory, os.W_OK) and shutil.disk_usage(in_memory).free > MIN_FREE_BYTES
    return in_memory if has_room else Path("/tmp")


@pytest.fixture(autouse=True)
def restore_logging() -> Generator[None, None, None]:
    """A command that runs inside a test configures logging for its own output, which ends with it."""
    with restored_logging():
        yield


@pytest.fixture(scope="session")
def duly_home() -> Generator[Path, None, None]:
    """The plugin's directory is ours, which goes even when the processes of the run were killed."""
    with shared_directory(Path(os.environ[RUN_HOME])) as directory:
        yield directory


@pytest.fixture(scope="session")
def run_home(duly_home: Path) -> Path:
    """The directory of this run's servers, shared by all its processes."""
    return duly_home


@pytest.fixture(scope="session")
def duly_server(duly_home: Path, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """The address of the run's server, which `--server` names."""
    with open_named_server(request.config.option.server, duly_home) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def server(duly_server: str) -> str:
    """The address of the run's server."""
    return duly_server


@pytest.fixture(scope="session")
def databases(server: str, run_home: Path) -> TestDatabases:
    """The template of this run, built by whichever process came first."""
    return templates(server, run_home, "template", build_template)


def templates(server: str, run_home: Path, kind: str, build: Callable[[str], None]) -> TestDatabases:
    """A template of this run, built by whichever process came first."""
    prefix = database_prefix(run_home)
    databases = TestDatabases(server, prefix, template=f"{prefix}_{kind}")
    databases.build_template(build)
    return databases


def open_database_pool(
    server: str, run_home: Path, owner: str, kind: str, build: Callable[[str], None]
) -> Generator[DatabasePool, None, None]:
    """Who lends databases like a template, until the end of the run."""
    with closing(DatabasePool(templates(server, run_home, kind, build), owner)) as database_pool:
        yield database_pool


def build_template(dsn: str) -> None:
    """What every test database starts with: our tables, and roles that can log in, for tests connect as they do."""
    roles = Names()
    migrate(dsn, roles)
    with psycopg.connect(dsn, autocommit=True) as admin:
        for role in (roles.worker, roles.api, roles.readonly):
            admin.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))


def build_movable_template(dsn: str) -> None:
    """The same, and a clock that can be moved."""
    build_template(dsn)
    with psycopg.connect(dsn, autocommit=True) as admin:
        install_test_clock(admin)


@pytest.fixture(scope="session")
def conformance_databases(server: str, run_home: Path, worker_id: str) -> Generator[DatabasePool, None, None]:
    """Databases with the two tables, on the server of this run."""
    yield from open_database_pool(server, run_home, worker_id, "conformance", build_conformance_tables)


def build_conformance_tables(dsn: str) -> None:
    """The template, a clock that can be moved, and the two tables."""
    from tests.support.conformance.tables import schema_sql

    build_movable_template(dsn)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(schema_sql().encode())


@pytest.fixture(scope="session")
def s3_server() -> Generator["S3Server", None, None]:
    """A store like S3, of this process's own, which refuses requests without a key."""
    import httpx2
    from moto.server import ThreadedMotoServer

    from tests.support.storage.s3_server import BUCKET, S3Server, make_key

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    httpx2.put(f"{endpoint}/{BUCKET}", timeout=60).raise_for_status()
    key_id, secret = make_key(endpoint)
    httpx2.post(f"{endpoint}/moto-api/reset-auth", content=b"0", timeout=60).raise_for_status()
    yield S3Server(endpoint, key_id, secret)
    httpx2.post(f"{endpoint}/moto-api/reset-auth", content=b"inf", timeout=60).raise_for_status()
    server.stop()


@pytest.fixture
def telegram() -> Generator["FakeTelegram", None, None]:
    """A Bot API of this test's own."""
    from tests.support.bot_api import FakeTelegram

    with FakeTelegram() as server:
        yield server


@pytest.fixture(scope="session")
def database_pool(server: str, run_home: Path, worker_id: str) -> Generator[DatabasePool, None, None]:
    """Databases like the template."""
    yield from open_database_pool(server, run_home, worker_id, "template", build_template)


@pytest.fixture(scope="session")
def movable_database_pool(server: str, run_home: Path, worker_id: str) -> Generator[DatabasePool, None, None]:
    """Databases like the template, with a clock that can be moved."""
    yield from open_database_pool(server, run_home, worker_id, "moving", build_movable_template)


@pytest.fixture
def database(database_pool: DatabasePool, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """The address of a database of this test's own, whose invariants hold when it is over."""
    with database_pool.borrow() as dsn:
        yield dsn
        check_invariants(dsn, request)


@pytest.fixture
def movable_database(movable_database_pool: DatabasePool, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """The same, with a clock that can be moved."""
    with movable_database_pool.borrow() as dsn:
        yield dsn
        check_invariants(dsn, request)


def check_invariants(dsn: str, request: pytest.FixtureRequest) -> None:
    """A test of people and workers leaves its database lawful; a story, also as the contracts say."""
    if must_keep_invariants(request) and should_check_invariants(request):
        with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=10s -c jit=off") as admin:
            assert find_violations(admin) == []
            assert not compares_catalogue(request) or find_contract_differences(admin) == []


def should_check_invariants(request: pytest.FixtureRequest) -> bool:
    """Are invariants asked after this test? In the fast tier once per module, after whichever test comes first."""
    path = Path(str(request.path))
    frequency = request.config.option.invariants or ("module" if is_fast(path) else "test")
    checked_modules = request.config.stash[CHECKED_MODULES]
    if frequency == "module" and path in checked_modules:
        return False
    checked_modules.add(path)
    return True


@pytest.fixture
def home() -> Generator[Path, None, None]:
    """A home for one embedded server of this test's own."""
    directory = open_directory("duly-home-")
    yield directory / "duly"
    remove_server_directory(directory)
