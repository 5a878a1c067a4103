"""Create, find, clone, rename and drop databases."""

from contextlib import suppress
from typing import Any

from psycopg import Connection, OperationalError, connect, errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import scalar_row

from duly.db.pool import with_keepalive
from duly.db.queries import load_queries
from duly.errors import Unavailable

SQL = load_queries(__file__, "admin.sql")


def create_database(dsn: str, name: str) -> str:
    """Create a database on the server at `dsn` unless it exists; return its address."""
    already_exists = errors.DuplicateDatabase, errors.UniqueViolation  # the latter: created concurrently
    with connect(with_keepalive(dsn), autocommit=True) as connection, suppress(*already_exists):
        connection.execute(SQL.using(name=name).create_database)
    return make_conninfo(dsn, dbname=name)


def clone_database(admin: Connection[Any], template: str, name: str) -> None:
    """Copy a database that has no connections."""
    admin.execute(SQL.using(name=name, template=template).clone_database)


def rename_database(admin: Connection[Any], name: str, new_name: str) -> None:
    """Rename a database that has no connections."""
    admin.execute(SQL.using(name=name, new_name=new_name).rename_database)


def drop_database(admin: Connection[Any], name: str) -> None:
    """Drop a database, closing its connections."""
    admin.execute(SQL.using(name=name).drop_database)


def has_database(admin: Connection[Any], name: str) -> bool:
    """Return whether a database of this name exists."""
    return admin.cursor(row_factory=scalar_row).execute(SQL.has_database, {"name": name}).fetchone() is True


def list_databases(admin: Connection[Any], prefix: str) -> list[str]:
    """List the databases whose names have this prefix."""
    return admin.cursor(row_factory=scalar_row).execute(SQL.list_databases, {"prefix": prefix}).fetchall()


def works_as_login(dsn: str, role: str, schema: str) -> bool:
    """Return whether the ingest tables belong to a backend, so that a worker keeps its login instead of the role."""
    try:
        with connect(with_keepalive(dsn), autocommit=True) as connection:
            parameters = {"role": role, "schema": schema}
            return connection.cursor(row_factory=scalar_row).execute(SQL.works_as_login, parameters).fetchone() is True
    except OperationalError as error:
        raise Unavailable(f"the database did not answer: {error}") from None
