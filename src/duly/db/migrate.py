"""Migrate a database to a revision in one transaction, one migration at a time, with a lock timeout.

A migration waits at most three seconds for a lock, so that it does not block other transactions for longer; then it
rolls back and retries.
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

from duly.configuration.engine import OUR_SCHEMAS
from duly.db.location import Database
from duly.db.migrations import DIRECTORY, Names, fill
from duly.db.pool import READ_ONLY, with_keepalive
from duly.db.queries import load_queries
from duly.errors import DulyError, Misconfigured, Unavailable
from duly.logging import get_log
from duly.settings import Settings

SQL = load_queries(__file__, "migrate.sql")
DROPPED_TABLE = re.compile(r'^drop table "?(\w+)"?\."?(\w+)"?;$', re.MULTILINE)
LOG = get_log(__name__)
TRIES = 20
PAUSE_SECONDS = 0.5
RETRYABLE_SQLSTATES = (
    "08",
    "40",
    "53",
    "57",
)  # error classes that a retry may not meet: connection, rollback, resources, operator intervention
MAX_DESCRIPTION_LENGTH = 2_000
Report = Callable[[str], None]


def direct_dsn(settings: Settings, database: Database) -> str:
    """Return the address for migrations, which bypasses a pooler."""
    direct = settings.database_direct_url
    return direct.get_secret_value() if direct else database.dsn


@contextmanager
def migration_transaction(dsn: str) -> Generator[Connection, None, None]:
    """Open a connection with one transaction, committed at the end."""
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(with_keepalive(dsn)), poolclass=NullPool
    )
    with engine.begin() as connection:
        yield connection


def migrate(dsn: str, roles: Names, to: str = "head", report: Report = print) -> str | None:
    """Upgrade or downgrade to a revision; return the revision the database is at afterwards."""
    for nth in range(1, TRIES + 1):
        try:
            with migration_transaction(dsn) as connection:
                run = choose_command(current_revision(connection), to)
                run(build_config(roles, connection), to)
                return current_revision(connection)
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or nth == TRIES:
                raise translate_error(error) from None
            report(f"a table is locked by another transaction; retrying ({nth} of {TRIES})")
            time.sleep(PAUSE_SECONDS * (1 + random.random()))  # noqa: S311 (jitter, not a secret)
    raise AssertionError("unreachable")


def count_rows_to_drop(dsn: str, roles: Names, to: str) -> Mapping[str, int]:
    """Count the rows of each table that migrating to a revision would drop; empty tables are left out."""
    try:
        with migration_transaction(dsn) as connection:
            current = current_revision(connection)
        dropped = list_dropped_tables(roles, current, to)
        if not dropped:
            return {}
        with psycopg.connect(with_keepalive(dsn)) as owner:
            become_owner(owner, roles)
            tables = list_tables(owner, roles)
            owned = [table for table in dropped if tables.get(table)]  # a backend's own tables are never dropped
            counts = {".".join(table): count_rows(owner, *table) for table in owned}
        return {table: rows for table, rows in counts.items() if rows}
    except DBAPIError as error:
        raise translate_error(error) from None
    except psycopg.Error as error:
        raise translate_cause(error, "") from None


def list_dropped_tables(roles: Names, current: str | None, to: str) -> Sequence[tuple[str, str]]:
    """List schema and name of every table that the downgrade files between two revisions drop."""
    if choose_command(current, to) is command.upgrade:
        return []
    order = [script.revision for script in script_directory().walk_revisions()]  # newest first
    end = order.index(to) if to in order else len(order)
    undone = order[order.index(current) if current else 0 : end]
    files = [fill((DIRECTORY / "sql" / f"{revision}.down.sql").read_text(), asdict(roles)) for revision in undone]
    return [(schema, table) for file in files for schema, table in DROPPED_TABLE.findall(file)]


def become_owner(connection: psycopg.Connection[Any], roles: Names) -> None:
    """Set the owner's role for the rest of the transaction."""
    connection.execute(SQL.using(owner=roles.owner).become_owner)


def list_tables(connection: psycopg.Connection[Any], roles: Names) -> Mapping[tuple[str, str], bool]:
    """Map every table in duly's schemas, by schema and name, to whether it belongs to duly's owner."""
    parameters = {"schemas": [*OUR_SCHEMAS, roles.ingest], "owner": roles.owner}
    rows = connection.execute(SQL.list_tables, parameters).fetchall()
    return {(schema, table): is_owned for schema, table, is_owned in rows}


def count_rows(connection: psycopg.Connection[Any], schema: str, table: str) -> int:
    """Count the rows of a table."""
    (rows,) = connection.execute(SQL.using(schema=schema, table=table).count_rows).fetchone() or (0,)
    return rows


def translate_error(error: DBAPIError) -> DulyError:
    """Translate the error of a migration into one line; the traceback goes to the debug log."""
    LOG.debug("migration.failed", exc_info=error)
    return translate_cause(error.orig, error.statement or "")


def translate_cause(cause: BaseException | None, statement: str) -> DulyError:
    """Translate a database error for the person who runs the migration."""
    if isinstance(cause, psycopg.errors.LockNotAvailable):
        return Unavailable(f"a table was locked during {TRIES} tries; end long transactions and run it again")
    if not isinstance(cause, psycopg.Error) or cause.sqlstate is None:
        return Unavailable(f"the database did not answer: {' '.join(str(cause).split())}")
    if isinstance(cause, psycopg.errors.ReadOnlySqlTransaction):
        return Unavailable(f"nothing was changed: {READ_ONLY}")
    message = f"nothing was changed: {describe_error(cause, statement)}"
    is_retryable = cause.sqlstate[:2] in RETRYABLE_SQLSTATES
    return Unavailable(f"{message}; run it again") if is_retryable else Misconfigured(message)


def describe_error(cause: psycopg.Error, statement: str) -> str:
    """Describe a database error with its detail, hint and statement, in one line of bounded length."""
    diag = cause.diag
    text = diag.message_primary or str(cause)
    text += f" ({diag.message_detail})" if diag.message_detail else ""
    if diag.message_hint:
        text += f"; {diag.message_hint}"
    elif line := first_statement_line(diag.internal_query or statement):
        text += f", in: {line}"
    return " ".join(text.split())[:MAX_DESCRIPTION_LENGTH]


def first_statement_line(statement: str) -> str:
    """Return the first line of a statement that is not a comment: it names the object."""
    lines = (line.strip() for line in statement.splitlines())
    return next((line for line in lines if line and not line.startswith("--")), "")


def choose_command(current: str | None, to: str) -> Callable[[Config, str], None]:
    """Return Alembic's upgrade or downgrade, whichever leads to the revision."""
    order = [script.revision for script in reversed(list(script_directory().walk_revisions()))]
    if to not in ("head", "base", *order):
        raise Misconfigured(f"--to {to}: no such revision; use one of {', '.join(order)}, base or head")
    positions = {"base": -1, "head": len(order) - 1} | {revision: nth for nth, revision in enumerate(order)}
    if current and current not in positions:
        raise Misconfigured(
            f"the database is at revision {current}, which this version of duly does not know (its newest is "
            f"{order[-1]}): a newer version migrated it; update duly"
        )
    here = positions[current or "base"]
    return command.downgrade if positions[to] < here else command.upgrade


def migration_sql(roles: Names, to: str = "head") -> None:
    """Print the SQL that migrates an empty database to a revision."""
    command.upgrade(build_config(roles), to, sql=True)


def build_config(roles: Names, connection: Connection | None = None) -> Config:
    """Build Alembic's configuration, with the attributes that migrations/env.py reads."""
    config = Config(attributes={"roles": roles, "connection": connection})
    config.set_main_option("script_location", str(DIRECTORY))
    config.set_main_option("path_separator", "os")
    return config


def script_directory() -> ScriptDirectory:
    """Open the directory of revisions."""
    return ScriptDirectory(str(DIRECTORY), version_locations=[str(Path(DIRECTORY) / "versions")])


def newest_revision() -> str:
    """Return the newest revision of this version of duly."""
    head = script_directory().get_current_head()
    assert head, "there is always a newest migration"
    return head


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None when it was never migrated."""
    return MigrationContext.configure(connection, opts={"version_table_schema": "duly"}).get_current_revision()
