"""Bring a database to a revision: all of the way or not at all, one migrator at a time, never long in anybody's way.

A migration waits at most three seconds for a lock and then lets everybody else go first: it rolls back whole and tries
again a little later.
"""

import random
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from duly.db.location import Database
from duly.db.migrations import DIRECTORY, Names, fill
from duly.db.pool import READ_ONLY, with_keepalive
from duly.db.queries import load_queries
from duly.errors import DulyError, Misconfigured, Unavailable
from duly.logging import get_log
from duly.settings import OUR_SCHEMAS, Settings

__all__ = [
    "connected",
    "count_rows_to_drop",
    "current_revision",
    "direct_dsn",
    "list_tables",
    "migrate",
    "migration_sql",
    "newest_revision",
    "scripts",
]

SQL = load_queries(__file__, "migrate.sql")
DROPPED_TABLE = re.compile(r'^drop table "?(\w+)"?\."?(\w+)"?;$', re.MULTILINE)
LOG = get_log(__name__)
TRIES = 20
PAUSE_SECONDS = 0.5
PASSING = (
    "08",
    "40",
    "53",
    "57",
)  # classes of errors that another try may not meet: connection, conflict, resources, stop
MAX_DESCRIPTION_LENGTH = 2_000
Report = Callable[[str], None]


def direct_dsn(settings: Settings, database: Database) -> str:
    """The address for migrations: past a pooler when there is one."""
    direct = settings.database_direct_url
    return direct.get_secret_value() if direct else database.dsn


@contextmanager
def connected(dsn: str) -> Generator[Connection, None, None]:
    """One connection with one transaction, committed at the end."""
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(with_keepalive(dsn)), poolclass=NullPool
    )
    with engine.begin() as connection:
        yield connection


def migrate(dsn: str, roles: Names, to: str = "head", report: Report = print) -> str | None:
    """Upgrade or downgrade to a revision; returns the one the database is at now."""
    for nth in range(1, TRIES + 1):
        try:
            with connected(dsn) as connection:
                move = direction(current_revision(connection), to)
                move(config_for(roles, connection), to)
                return current_revision(connection)
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or nth == TRIES:
                raise refusal(error) from None
            report(f"a table is in use; letting others go first, then trying again ({nth} of {TRIES})")
            time.sleep(PAUSE_SECONDS * (1 + random.random()))  # noqa: S311 (jitter, not a secret)
    raise AssertionError("unreachable")


def count_rows_to_drop(dsn: str, roles: Names, to: str) -> Mapping[str, int]:
    """The tables that going to a revision would drop, and how many rows each of them has; empty ones are left out."""
    try:
        with connected(dsn) as connection:
            current = current_revision(connection)
        dropped = tables_dropped(roles, current, to)
        if not dropped:
            return {}
        with psycopg.connect(with_keepalive(dsn)) as owner:
            become_owner(owner, roles)
            tables = list_tables(owner, roles)
            ours = [table for table in dropped if tables.get(table)]  # a backend's own tables are never dropped
            counts = {".".join(table): count_rows(owner, *table) for table in ours}
        return {table: rows for table, rows in counts.items() if rows}
    except DBAPIError as error:
        raise refusal(error) from None
    except psycopg.Error as error:
        raise refusal_of(error, "") from None


def tables_dropped(roles: Names, current: str | None, to: str) -> Sequence[tuple[str, str]]:
    """Schema and name of every table that the files between two revisions drop on the way down."""
    if direction(current, to) is command.upgrade:
        return []
    order = [script.revision for script in scripts().walk_revisions()]  # the newest first
    end = order.index(to) if to in order else len(order)
    undone = order[order.index(current) if current else 0 : end]
    files = [fill((DIRECTORY / "sql" / f"{revision}.down.sql").read_text(), asdict(roles)) for revision in undone]
    return [(schema, table) for file in files for schema, table in DROPPED_TABLE.findall(file)]


def become_owner(connection: psycopg.Connection[Any], roles: Names) -> None:
    """Act as the owner for the rest of the transaction."""
    connection.execute(SQL.using(owner=roles.owner).become_owner)


def list_tables(connection: psycopg.Connection[Any], roles: Names) -> Mapping[tuple[str, str], bool]:
    """Every table in the schemas of our names, by schema and name, and whether it belongs to our owner."""
    asked = {"schemas": [*OUR_SCHEMAS, roles.ingest], "owner": roles.owner}
    rows = connection.execute(SQL.list_tables, asked).fetchall()
    return {(schema, table): is_owned for schema, table, is_owned in rows}


def count_rows(connection: psycopg.Connection[Any], schema: str, table: str) -> int:
    """How many rows a table has."""
    (rows,) = connection.execute(SQL.using(schema=schema, table=table).count_rows).fetchone() or (0,)
    return rows


def refusal(error: DBAPIError) -> DulyError:
    """What stopped a migration, in one line for the person who must act; the traceback is for the debug log."""
    LOG.debug("migration failed", exc_info=error)
    return refusal_of(error.orig, error.statement or "")


def refusal_of(cause: BaseException | None, statement: str) -> DulyError:
    """What an error of the database means to the person who migrates."""
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return Unavailable(f"a table stayed in use for {TRIES} tries; look for long transactions and run it again")
    if not isinstance(cause, psycopg.Error) or cause.sqlstate is None:
        return Unavailable(f"the database did not answer: {' '.join(str(cause).split())}")
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return Unavailable(f"nothing was changed: {READ_ONLY}")
    what = f"nothing was changed: {description(cause, statement)}"
    return Unavailable(f"{what}; run it again") if cause.sqlstate[:2] in PASSING else Misconfigured(what)


def description(cause: psycopg.Error, statement: str) -> str:
    """What the server said, what it advises, and the statement it said it of, in one line of bounded length."""
    diag = cause.diag
    said = diag.message_primary or str(cause)
    said += f" ({diag.message_detail})" if diag.message_detail else ""
    if diag.message_hint:
        said += f"; {diag.message_hint}"
    elif line := first_line(diag.internal_query or statement):
        said += f", in: {line}"
    return " ".join(said.split())[:MAX_DESCRIPTION_LENGTH]


def first_line(statement: str) -> str:
    """The line of a statement that names what it makes or changes."""
    lines = (line.strip() for line in statement.splitlines())
    return next((line for line in lines if line and not line.startswith("--")), "")


def direction(current: str | None, to: str) -> Callable[[Config, str], None]:
    """Upgrade or downgrade, whichever leads there."""
    order = [script.revision for script in reversed(list(scripts().walk_revisions()))]
    if to not in ("head", "base", *order):
        raise Misconfigured(f"--to {to}: there is no such revision; there are {', '.join(order)}, base and head")
    place = {"base": -1, "head": len(order) - 1} | {revision: nth for nth, revision in enumerate(order)}
    if current and current not in place:
        raise Misconfigured(
            f"the database is at the revision {current}, which this duly does not know; the newest it knows is "
            f"{order[-1]}: the database was made by a newer one, so update duly"
        )
    here = place[current or "base"]
    return command.downgrade if place[to] < here else command.upgrade


def migration_sql(roles: Names, to: str = "head") -> None:
    """Print the SQL that leads from nothing to a revision."""
    command.upgrade(config_for(roles), to, sql=True)


def config_for(roles: Names, connection: Connection | None = None) -> Config:
    """Alembic's configuration, with what our env.py finds waiting."""
    config = Config(attributes={"roles": roles, "connection": connection})
    config.set_main_option("script_location", str(DIRECTORY))
    config.set_main_option("path_separator", "os")
    return config


def scripts() -> ScriptDirectory:
    """The revisions there are."""
    return ScriptDirectory(str(DIRECTORY), version_locations=[str(Path(DIRECTORY) / "versions")])


def newest_revision() -> str:
    """The revision this version of duly wants."""
    head = scripts().get_current_head()
    assert head, "there is always a newest migration"
    return head


def current_revision(connection: Connection) -> str | None:
    """The revision a database is at; None when it has never been migrated."""
    return MigrationContext.configure(connection, opts={"version_table_schema": "duly"}).get_current_revision()
