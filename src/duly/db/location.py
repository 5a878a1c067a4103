"""Locate the database of this process: DATABASE_URL, or the embedded server in DULY_HOME."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.configuration.engine import parse_address
from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer, has_data
from duly.db.pool import with_keepalive
from duly.errors import NoDatabase, Unavailable
from duly.settings import Settings, variable_read_for

EMBEDDED_DATABASE = "duly"


@dataclass(frozen=True)
class Database:
    """The address of a database, and the handle that keeps an embedded server running."""

    dsn: str
    server: EmbeddedServer | None = None

    def dsn_as(self, role: str) -> str:
        """Return the address for one component: on the embedded server its role is the login."""
        return make_conninfo(self.dsn, user=role) if self.server else self.dsn

    def allow_logins(self, roles: Iterable[str]) -> None:
        """Let components log in as their roles on the embedded server, which is not reachable from outside."""
        if not self.server:
            return
        with psycopg.connect(with_keepalive(self.dsn), autocommit=True) as connection:
            for role in roles:
                connection.execute(sql.SQL("alter role {} login").format(sql.Identifier(role)))

    def describe(self) -> str:
        """Describe the server and its location; Unavailable when it does not answer."""
        version = fetch_server_version(self.dsn)
        if self.server:
            return f"PostgreSQL {version}, private to this directory, data in {self.server.plan.home}"
        return f"PostgreSQL {version} at {format_location(self.dsn)}"

    @property
    def address(self) -> str | None:
        """The DATABASE_URL with which other programs reach the embedded database; None when it is set already."""
        if not self.server:
            return None
        return to_url(make_conninfo("", **{**conninfo_to_dict(self.dsn), "options": None}))

    def close(self) -> None:
        """Release the embedded server, if there is one."""
        if self.server:
            self.server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(settings: Settings, *, create: bool = True) -> Database:
    """Open the configured database; an embedded server is started and accepts connections when this returns.

    Without `create`, an embedded one must exist; otherwise this raises NoDatabase and writes nothing.
    """
    if settings.database_url:
        return Database(settings.database_url.get_secret_value())
    if not create and not has_configured_database(settings):
        raise no_database_error(settings)
    os.environ.pop("PGSERVICE", None)  # it overrides any address, and names another server
    server = EmbeddedServer.start(settings.home, pgbin=settings.pgbin, pguser=settings.pguser)
    return Database(create_database(server.dsn(), EMBEDDED_DATABASE), server)


def direct_dsn(settings: Settings, database: Database) -> str:
    """Return the address for migrations, which bypasses a pooler."""
    direct = settings.database_direct_url
    return direct.get_secret_value() if direct else database.dsn


def has_configured_database(settings: Settings) -> bool:
    """Return whether DATABASE_URL is set or DULY_HOME has an embedded database; creates nothing."""
    return bool(settings.database_url) or has_data(settings.home)


def no_database_error(settings: Settings) -> NoDatabase:
    """Build the error for a missing database."""
    home = settings.home.absolute()
    return NoDatabase(f"no duly database here (DULY_HOME={home}): run `duly up`, or set DATABASE_URL")


def fetch_server_version(dsn: str) -> str:
    """Fetch the version of the server; Unavailable, in one line, when the login fails."""
    try:
        with psycopg.connect(with_keepalive(dsn)) as connection:
            return connection.info.parameter_status("server_version") or "?"
    except psycopg.OperationalError as error:
        raise connection_error(dsn, error) from None


def connection_error(dsn: str, error: psycopg.OperationalError) -> Unavailable:
    """Build the one-line error for a failed connection: setting, address without password, reason."""
    reason = " ".join(str(error).removeprefix("connection failed: ").split())
    return Unavailable(f"{variable_read_for('database_url')}: cannot connect to {format_location(dsn)}: {reason}")


def format_location(dsn: str) -> str:
    """Format host, port and database of an address; never its password."""
    parts = parse_address(dsn)
    return f"{parts.get('host', 'the local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def to_url(dsn: str) -> str:
    """Convert an address to a URL that libpq, SQLAlchemy and DATABASE_URL accept; includes its password."""
    parts = parse_address(dsn)
    login = ":".join(quote(parts[name], safe="") for name in ("user", "password") if name in parts)
    path = quote(parts.get("dbname", ""), safe="")
    rest = {name: value for name, value in parts.items() if name not in ("user", "password", "dbname")}
    query = urlencode(rest, quote_via=quote, safe="/,:")
    return f"postgresql://{login}{'@' if login else ''}/{path}{'?' if query else ''}{query}"


def role_to_set(dsn: str, role: str) -> str | None:
    """Return the role to set in every transaction; None where the login is that role."""
    return None if parse_address(dsn).get("user") == role else role
