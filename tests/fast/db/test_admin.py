"""Whole databases: made once, found by their exact names, dropped together with their visitors."""

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from duly.db.admin import create_database, drop_database, has_database, list_databases
from duly.testing import TestDatabases


@pytest.fixture
def prefix(databases: TestDatabases, worker_id: str) -> str:
    """The beginning of names that only this test uses, with a letter that a pattern would take for any."""
    return f"{databases.prefix}_{worker_id}_admin_"


@pytest.fixture
def admin(databases: TestDatabases, prefix: str) -> Generator[psycopg.Connection[Any], None, None]:
    """A connection to the server; what the test made is gone afterwards."""
    with psycopg.connect(databases.dsn, autocommit=True) as admin:
        yield admin
        for name in list_databases(admin, prefix.rstrip("_")):
            drop_database(admin, name)


def test_create_database_is_idempotent(databases: TestDatabases, admin: psycopg.Connection[Any], prefix: str) -> None:
    assert not has_database(admin, f"{prefix}one")
    for _ in range(2):
        with psycopg.connect(create_database(databases.dsn, f"{prefix}one")) as connection:
            assert connection.info.dbname == f"{prefix}one"
    assert has_database(admin, f"{prefix}one")


def test_database_names_are_quoted(databases: TestDatabases, admin: psycopg.Connection[Any], prefix: str) -> None:
    hostile = f'{prefix}a"b; drop'
    create_database(databases.dsn, hostile)
    assert list_databases(admin, prefix) == [hostile]
    drop_database(admin, hostile)
    drop_database(admin, hostile)
    assert list_databases(admin, prefix) == []


def test_underscore_in_a_prefix_is_not_a_wildcard(
    databases: TestDatabases, admin: psycopg.Connection[Any], prefix: str
) -> None:
    for name in (f"{prefix}one", f"{prefix.rstrip('_')}Xone"):
        create_database(databases.dsn, name)
    assert list_databases(admin, prefix) == [f"{prefix}one"]
