"""Migrate a database in one transaction, one migration at a time, with a lock timeout.

The engine and each application are a branch of their own; see `migrations/branches.py`.

A migration waits at most three seconds for a lock, so that it does not block other transactions for longer; then it
rolls back and retries.
"""

import random
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from typing import Any

import psycopg
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from duly.db.migrations import DIRECTORY, Names, fill
from duly.db.migrations.branches import APPLICATIONS, BRANCHES, INGEST, list_schemas
from duly.db.pool import READ_ONLY, with_keepalive
from duly.db.queries import load_queries
from duly.errors import DulyError, Misconfigured, Unavailable
from duly.logging import get_log

SQL = load_queries(__file__, "migrate.sql")
DROPPED_TABLE = re.compile(r'^drop table "?(\w+)"?\."?(\w+)"?;$', re.MULTILINE)
LOG = get_log(__name__)
TRIES = 20
PAUSE_SECONDS = 0.5
RETRYABLE_SQLSTATES = ("08", "40", "53", "57")  # classes: connection, rollback, resources, operator intervention
MAX_DESCRIPTION_LENGTH = 2_000
HEAD = "head"
Report = Callable[[str], None]
Apps = str | None  # "all", "none", or names of applications with commas between them


@contextmanager
def migration_transaction(dsn: str) -> Generator[Connection, None, None]:
    """Open a connection with one transaction, committed at the end."""
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(with_keepalive(dsn)), poolclass=NullPool
    )
    with engine.begin() as connection:
        yield connection


def migrate(
    dsn: str, names: Names, to: str = HEAD, report: Report = print, apps: Apps = None, when_empty: str = "all"
) -> tuple[str, ...]:
    """Upgrade to the newest revisions, or move one branch to a revision; return the revisions afterwards.

    `apps` adds applications to those that are installed; without it an empty database gets those of `when_empty`.
    """
    for nth in range(1, TRIES + 1):
        try:
            with migration_transaction(dsn) as connection:
                migrate_to(connection, names, to, apps, when_empty)
                return current_revisions(connection)
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.LockNotAvailable) or nth == TRIES:
                raise translate_error(error) from None
            report(f"a table is locked by another transaction; retrying ({nth} of {TRIES})")
            time.sleep(PAUSE_SECONDS * (1 + random.random()))  # noqa: S311 (jitter, not a secret)
    raise AssertionError("unreachable")


def migrate_to(connection: Connection, names: Names, to: str, apps: Apps, when_empty: str) -> None:
    """Upgrade or downgrade through this connection."""
    current = known_revisions(connection)
    config = build_config(names, connection)
    if is_downgrade(current, to):
        command.downgrade(config, to)
        return
    config.attributes["targets"] = targets_for(connection, names, apps, when_empty) if to == HEAD else [to]
    command.upgrade(config, HEAD)


def is_downgrade(current: Sequence[str], to: str) -> bool:
    """Return whether this revision, `head` or `branch@base` lies behind the current revisions."""
    bases = [f"{branch}@base" for branch in BRANCHES]
    revisions = [script.revision for script in script_directory().walk_revisions()]
    if to == "base":
        raise Misconfigured(f"--to base: name the branch, one of {', '.join(bases)}; engine@base removes everything")
    if to not in (HEAD, *bases, *revisions):
        raise Misconfigured(f"--to {to}: no such revision; use head, {', '.join((*sorted(revisions), *bases))}")
    if to in bases:
        return to.removesuffix("@base") in installed_branches(current)
    behind = (script_directory().iterate_revisions(each, "base") for each in branch_revisions(current))
    return to in {script.revision for several in behind for script in list(several)[1:]}


def targets_for(connection: Connection | None, names: Names, apps: Apps, when_empty: str = "all") -> list[str]:
    """List the heads to upgrade to: the engine, the installed applications, and those that are asked for.

    Ingest is left out by itself where a backend owns its tables.
    """
    installed = installed_branches(known_revisions(connection)) if connection else []
    wanted = parse_apps(apps or ("none" if installed else when_empty))
    is_named = apps not in (None, "all")
    if INGEST in wanted and not is_named and INGEST not in installed and connection and has_sessions(connection, names):
        wanted.remove(INGEST)
    if unknown := set(wanted) - {each.name for each in APPLICATIONS}:
        known = ", ".join(each.name for each in APPLICATIONS)
        raise Misconfigured(f"--apps: no application {', '.join(sorted(unknown))}; use {known}, all or none")
    return [f"{branch}@head" for branch in BRANCHES if branch in {"engine", *installed, *wanted}]


def parse_apps(apps: str) -> list[str]:
    """Parse `all`, `none`, or names of applications with commas between."""
    if apps == "all":
        return [each.name for each in APPLICATIONS]
    return [] if apps == "none" else [name.strip() for name in apps.split(",")]


def has_sessions(connection: Connection, names: Names) -> bool:
    """Return whether the ingest schema has a table of sessions, no matter who created it."""
    (found,) = psycopg_connection(connection).execute(SQL.has_sessions, {"schema": names.ingest}).fetchone() or (False,)
    return found


def psycopg_connection(connection: Connection) -> psycopg.Connection[Any]:
    """Return the connection of psycopg below that of SQLAlchemy."""
    return connection.connection.driver_connection  # pyright: ignore[reportReturnType]


def count_rows_to_drop(dsn: str, names: Names, to: str) -> Mapping[str, int]:
    """Count the rows of each table that migrating to a revision would drop; empty tables are left out."""
    try:
        with migration_transaction(dsn) as connection:
            dropped = list_dropped_tables(names, known_revisions(connection), to)
        if not dropped:
            return {}
        with psycopg.connect(with_keepalive(dsn)) as owner:
            become_owner(owner, names)
            tables = list_tables(owner, names)
            owned = [table for table in dropped if tables.get(table)]
            counts = {".".join(table): count_rows(owner, *table) for table in owned}
        return {table: rows for table, rows in counts.items() if rows}
    except DBAPIError as error:
        raise translate_error(error) from None
    except psycopg.Error as error:
        raise translate_cause(error, "") from None


def list_dropped_tables(names: Names, current: Sequence[str], to: str) -> Sequence[tuple[str, str]]:
    """List schema and name of every table that the downgrade files between the current revisions and this one drop."""
    if not is_downgrade(current, to):
        return []
    undone = script_directory().iterate_revisions(tuple(current), to, select_for_downgrade=True)
    files = [fill((DIRECTORY / "sql" / f"{each.revision}.down.sql").read_text(), asdict(names)) for each in undone]
    return [(schema, table) for file in files for schema, table in DROPPED_TABLE.findall(file)]


def become_owner(connection: psycopg.Connection[Any], names: Names) -> None:
    """Set the owner's role for the rest of the transaction."""
    connection.execute(SQL.using(owner=names.owner).become_owner)


def list_tables(connection: psycopg.Connection[Any], names: Names) -> Mapping[tuple[str, str], bool]:
    """Map every table in duly's schemas, by schema and name, to whether it belongs to duly's owner."""
    parameters = {"schemas": list_schemas(BRANCHES, names), "owner": names.owner}
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
    if isinstance(cause, psycopg.errors.DuplicateTable):
        text += "; duly migrate did not create it: rename it, or use another database for duly; where the files of "
        text += "supabase/migrations created it, apply those instead"
    return " ".join(text.split())[:MAX_DESCRIPTION_LENGTH]


def first_statement_line(statement: str) -> str:
    """Return the first line of a statement that is not a comment: it names the object."""
    lines = (line.strip() for line in statement.splitlines())
    return next((line for line in lines if line and not line.startswith("--")), "")


def migration_sql(names: Names, apps: Apps) -> None:
    """Print the SQL that migrates an empty database to the newest revisions."""
    config = build_config(names)
    config.attributes["targets"] = targets_for(None, names, apps)
    command.upgrade(config, HEAD, sql=True)


def build_config(names: Names, connection: Connection | None = None) -> Config:
    """Build Alembic's configuration, with the attributes that migrations/env.py reads."""
    config = Config(attributes={"names": names, "connection": connection})
    config.set_main_option("script_location", str(DIRECTORY))
    config.set_main_option("path_separator", "os")
    return config


@cache
def script_directory() -> ScriptDirectory:
    """Open the directory of revisions."""
    return ScriptDirectory(str(DIRECTORY), version_locations=[str(DIRECTORY / "versions")])


def newest_revisions() -> tuple[str, ...]:
    """Return the newest revision of each branch, the engine's first."""
    heads = {branch: script_directory().get_revision(f"{branch}@head").revision for branch in BRANCHES}
    return tuple(heads.values())


def known_revisions(connection: Connection) -> tuple[str, ...]:
    """Return the recorded revisions of a database; raises Misconfigured for one that a newer duly made."""
    current = MigrationContext.configure(connection, opts={"version_table_schema": "duly"}).get_current_heads()
    order = [script.revision for script in script_directory().walk_revisions()]
    if unknown := sorted(set(current) - set(order)):
        raise Misconfigured(
            f"the database is at revision {', '.join(unknown)}, which this version of duly does not know (its newest "
            f"are {', '.join(newest_revisions())}): a newer version migrated it; update duly"
        )
    return current


def current_revisions(connection: Connection) -> tuple[str, ...]:
    """Return the revision of each installed branch; none when the database was never migrated."""
    return branch_revisions(known_revisions(connection))


def branch_revisions(recorded: Sequence[str]) -> tuple[str, ...]:
    """Return the revision of each installed branch: a revision that another depends on is not recorded itself."""
    found = script_directory().get_all_current(tuple(recorded))
    order = list(BRANCHES)
    return tuple(each.revision for each in sorted(found, key=lambda each: order.index(revision_branch(each))))


def installed_branches(recorded: Sequence[str]) -> list[str]:
    """List the branches of the recorded revisions and of those that they depend on, the engine first."""
    found = {revision_branch(each) for each in script_directory().get_all_current(tuple(recorded))}
    return [branch for branch in BRANCHES if branch in found]


def revision_branch(revision: Script) -> str:
    """Return the branch of a revision."""
    (branch,) = revision.branch_labels
    return branch
