"""Which database this process works on: the one it was told of, or the embedded one of its home."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer
from duly.db.pool import with_keepalive
from duly.errors import Unavailable
from duly.settings import Settings, parse_address

__all__ = ["EMBEDDED_DATABASE", "Database", "open_database", "place_of", "role_on"]

EMBEDDED_DATABASE = "duly"


@dataclass(frozen=True)
class Database:
    """The address of a database, and the hold that keeps an embedded server up."""

    dsn: str
    server: EmbeddedServer | None = None

    def dsn_as(self, role: str) -> str:
        """The address for one component: on the embedded server its role logs in, elsewhere the login given."""
        return make_conninfo(self.dsn, user=role) if self.server else self.dsn

    def allow_logins(self, roles: Iterable[str]) -> None:
        """On the embedded server, which only we can reach: let components log in as their roles."""
        if not self.server:
            return
        with psycopg.connect(with_keepalive(self.dsn), autocommit=True) as connection:
            for role in roles:
                connection.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))

    def describe(self) -> str:
        """What and where it is, in a few words; Unavailable when it does not answer."""
        version = version_of(self.dsn)
        if self.server:
            return f"PostgreSQL {version}, private to this directory, data in {self.server.plan.home}"
        return f"PostgreSQL {version} at {place_of(self.dsn)}"

    def close(self) -> None:
        """Let go of the embedded server, if it is one."""
        if self.server:
            self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(settings: Settings) -> Database:
    """The database of these settings; an embedded one is started and answers when this returns."""
    if settings.database_url:
        return Database(settings.database_url.get_secret_value())
    os.environ.pop("PGSERVICE", None)  # the one variable no address can overrule, and it speaks of another server
    server = EmbeddedServer.start(settings.home, pgbin=settings.pgbin, pguser=settings.pguser)
    return Database(create_database(server.dsn(), EMBEDDED_DATABASE), server)


def version_of(dsn: str) -> str:
    """The version of the server at this address, or Unavailable with where we looked."""
    try:
        with psycopg.connect(with_keepalive(dsn)) as connection:
            return connection.info.parameter_status("server_version") or "?"
    except psycopg.OperationalError as error:
        raise Unavailable(f"DATABASE_URL: no PostgreSQL at {place_of(dsn)}: {error}") from None


def place_of(dsn: str) -> str:
    """Host and database of an address; never its password."""
    parts = parse_address(dsn)
    return f"{parts.get('host', 'the local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def role_on(dsn: str, role: str) -> str | None:
    """The role to act as in every transaction; None where the login is that role already."""
    return None if parse_address(dsn).get("user") == role else role
