"""Making, finding and dropping whole databases, on a server that lets us."""

from contextlib import suppress
from typing import Any

from psycopg import Connection, OperationalError, connect, errors
from psycopg.conninfo import make_conninfo
from psycopg.rows import scalar_row

from duly.db.pool import with_keepalive
from duly.db.queries import load_queries
from duly.errors import Unavailable

__all__ = [
    "clone_database",
    "create_database",
    "drop_database",
    "has_database",
    "list_databases",
    "rename_database",
    "works_as_login",
]

SQL = load_queries(__file__, "admin.sql")


def create_database(dsn: str, name: str) -> str:
    """Create a database on the server behind `dsn` unless it exists; returns its own address."""
    there_already = errors.DuplicateDatabase, errors.UniqueViolation  # the latter: made this instant by another
    with connect(with_keepalive(dsn), autocommit=True) as connection, suppress(*there_already):
        connection.execute(SQL.using(name=name).create_database)
    return make_conninfo(dsn, dbname=name)


def clone_database(admin: Connection[Any], template: str, name: str) -> None:
    """Copy a database nobody is connected to."""
    admin.execute(SQL.using(name=name, template=template).clone_database)


def rename_database(admin: Connection[Any], name: str, new_name: str) -> None:
    """Give a database nobody is connected to another name."""
    admin.execute(SQL.using(name=name, new_name=new_name).rename_database)


def drop_database(admin: Connection[Any], name: str) -> None:
    """Drop a database together with whatever is still connected to it."""
    admin.execute(SQL.using(name=name).drop_database)


def has_database(admin: Connection[Any], name: str) -> bool:
    """Is there a database of this name?"""
    return admin.cursor(row_factory=scalar_row).execute(SQL.has_database, {"name": name}).fetchone() is True


def list_databases(admin: Connection[Any], prefix: str) -> list[str]:
    """The databases whose names begin so."""
    return admin.cursor(row_factory=scalar_row).execute(SQL.list_databases, {"prefix": prefix}).fetchall()


def works_as_login(dsn: str, role: str, schema: str) -> bool:
    """Are the ingest tables of a schema a backend's, so that a worker acts as its login and not as this role?"""
    try:
        with connect(with_keepalive(dsn), autocommit=True) as connection:
            asked = {"role": role, "schema": schema}
            return connection.cursor(row_factory=scalar_row).execute(SQL.works_as_login, asked).fetchone() is True
    except OperationalError as error:
        raise Unavailable(f"the database did not answer: {error}") from None
