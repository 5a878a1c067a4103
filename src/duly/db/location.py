"""Which database this process works on: the one it was told of, or the embedded one of its home."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import quote, urlencode

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from duly.db.admin import create_database
from duly.db.embedded import EmbeddedServer, has_data
from duly.db.pool import with_keepalive
from duly.errors import NoDatabase, Unavailable
from duly.settings import Settings, parse_address, variable_read_for

__all__ = [
    "EMBEDDED_DATABASE",
    "Database",
    "cannot_connect",
    "has_database_here",
    "no_database",
    "open_database",
    "place_of",
    "role_on",
    "url_of",
    "version_of",
]

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

    @property
    def address(self) -> str | None:
        """What another program sets DATABASE_URL to, to reach the embedded database; None where it is set already."""
        if not self.server:
            return None
        return url_of(make_conninfo("", **{**conninfo_to_dict(self.dsn), "options": None}))

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


def open_database(settings: Settings, *, create: bool = True) -> Database:
    """The database of these settings; an embedded one is started and answers when this returns.

    Without `create` an embedded one must exist already, otherwise NoDatabase; nothing is written then.
    """
    if settings.database_url:
        return Database(settings.database_url.get_secret_value())
    if not create and not has_database_here(settings):
        raise no_database(settings)
    os.environ.pop("PGSERVICE", None)  # the one variable no address can overrule, and it speaks of another server
    server = EmbeddedServer.start(settings.home, pgbin=settings.pgbin, pguser=settings.pguser)
    return Database(create_database(server.dsn(), EMBEDDED_DATABASE), server)


def has_database_here(settings: Settings) -> bool:
    """Was a database named, or an embedded one made in this home? Looks only; makes nothing."""
    return bool(settings.database_url) or has_data(settings.home)


def no_database(settings: Settings) -> NoDatabase:
    """The refusal to work without a database."""
    home = settings.home.absolute()
    return NoDatabase(f"no duly database here (DULY_HOME={home}): run `duly up`, or set DATABASE_URL")


def version_of(dsn: str) -> str:
    """The version of the server at this address; Unavailable, in one line, when we cannot log in there."""
    try:
        with psycopg.connect(with_keepalive(dsn)) as connection:
            return connection.info.parameter_status("server_version") or "?"
    except psycopg.OperationalError as error:
        raise cannot_connect(dsn, error) from None


def cannot_connect(dsn: str, error: psycopg.OperationalError) -> Unavailable:
    """The refusal of a server in one line: the variable, the address without its password, and the reason."""
    reason = " ".join(str(error).removeprefix("connection failed: ").split())
    return Unavailable(f"{variable_read_for('database_url')}: cannot connect to {place_of(dsn)}: {reason}")


def place_of(dsn: str) -> str:
    """Host and database of an address; never its password."""
    parts = parse_address(dsn)
    return f"{parts.get('host', 'the local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def url_of(dsn: str) -> str:
    """The address as a URL, which libpq, SQLAlchemy and DATABASE_URL take alike; with its password, if it has one."""
    parts = parse_address(dsn)
    login = ":".join(quote(parts[name], safe="") for name in ("user", "password") if name in parts)
    path = quote(parts.get("dbname", ""), safe="")
    rest = {name: value for name, value in parts.items() if name not in ("user", "password", "dbname")}
    query = urlencode(rest, quote_via=quote, safe="/,:")
    return f"postgresql://{login}{'@' if login else ''}/{path}{'?' if query else ''}{query}"


def role_on(dsn: str, role: str) -> str | None:
    """The role to act as in every transaction; None where the login is that role already."""
    return None if parse_address(dsn).get("user") == role else role
