"""Making and dropping whole databases, on a server that lets us."""

from contextlib import suppress

from psycopg import Connection, connect, errors, sql
from psycopg.conninfo import make_conninfo

__all__ = ["clone_database", "create_database", "drop_database"]


def create_database(dsn: str, name: str) -> str:
    """Create a database on the server behind `dsn` unless it exists; returns its own address."""
    there_already = errors.DuplicateDatabase, errors.UniqueViolation  # the latter: made this instant by another
    with connect(dsn, autocommit=True) as connection, suppress(*there_already):
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    return make_conninfo(dsn, dbname=name)


def clone_database(admin: Connection, template: str, name: str) -> None:
    """Copy a database nobody is connected to; file copy is the quickest way for a small one."""
    statement = sql.SQL("create database {} template {} strategy file_copy")
    admin.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))


def drop_database(admin: Connection, name: str) -> None:
    """Drop a database together with whatever is still connected to it."""
    admin.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
