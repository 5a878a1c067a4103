"""The test databases that all other tests use."""

import os
import time

import psycopg
import pytest

from duly.db.admin import clone_database, drop_database
from duly.errors import NotATestDatabase
from duly.testing import FOREIGN_DATABASE_VARIABLES, TestDatabases, server_for_tests

MAX_SECONDS_FOR_A_CLONE = 0.150
MAX_TRIES = 25
MAX_RATIO_TO_AN_EMPTY_CLONE = 4  # on a machine that is busy, and slow at everything


def test_clones_are_separate_databases(databases: TestDatabases, worker_id: str) -> None:
    with databases.clone(worker_id) as first, databases.clone(worker_id) as second:
        with psycopg.connect(first) as connection:
            connection.execute("create table only_here ()")
        with psycopg.connect(second) as connection:
            assert connection.execute("select to_regclass('only_here')").fetchone() == (None,)


def test_clone_is_dropped_afterwards_even_with_open_connections(databases: TestDatabases, worker_id: str) -> None:
    with databases.clone(worker_id) as dsn:
        visitor = psycopg.connect(dsn)
    with visitor, pytest.raises(psycopg.OperationalError):
        visitor.execute("select 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(dsn)


def test_a_clone_takes_less_than_150_ms(databases: TestDatabases, worker_id: str) -> None:
    def seconds_for_one() -> float:
        started_at = time.perf_counter()
        with databases.clone(worker_id):
            return time.perf_counter() - started_at

    def seconds_for_an_empty_one() -> float:
        name = f"{databases.prefix}_{worker_id}_empty"
        with psycopg.connect(databases.dsn, autocommit=True) as admin:
            started_at = time.perf_counter()
            clone_database(admin, "template0", name)
            seconds = time.perf_counter() - started_at
            drop_database(admin, name)
        return seconds

    tries: list[tuple[float, float]] = []
    while not any(clone < max(MAX_SECONDS_FOR_A_CLONE, MAX_RATIO_TO_AN_EMPTY_CLONE * empty) for clone, empty in tries):
        assert len(tries) < MAX_TRIES, tries
        tries.append((seconds_for_one(), seconds_for_an_empty_one()))


def test_test_server_runs_with_fsync_off(server: str) -> None:
    with psycopg.connect(server) as connection:
        assert connection.execute("show fsync").fetchone() == ("off",)


def test_every_major_version_provides_clones(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert connection.info.server_version >= 150000
        assert connection.execute("select lower('ÅÄÖ')").fetchone() == ("åäö",)
        assert connection.execute("show timezone").fetchone() == ("UTC",)


@pytest.mark.parametrize("name", ["duly_test", "test", "TEST-duly", "my_test_2"])
def test_a_database_marked_by_its_name_is_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DATABASE_URL", f"postgresql://somewhere/{name}")
    assert server_for_tests() == f"postgresql://somewhere/{name}"


@pytest.mark.parametrize("name", ["production", "latest", "contest", ""])
def test_a_database_not_marked_as_a_test_one_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_DATABASE_URL", f"postgresql://somewhere/{name}")
    with pytest.raises(NotATestDatabase, match=f"TEST_DATABASE_URL names the database '{name}'"):
        server_for_tests()


def test_no_variable_points_at_a_real_database_while_tests_run() -> None:
    assert not [name for name in FOREIGN_DATABASE_VARIABLES if name in os.environ]
