"""The applications that a database has: those are on where DULY_APPS is not set."""

from collections.abc import Sequence

import psycopg

from duly.applications import NONE, Application, list_applications
from duly.db.migrations.script import Names
from duly.db.pool import with_keepalive
from duly.db.queries import load_queries
from duly.errors import Unavailable
from duly.settings import Settings

SQL = load_queries(__file__, "installed.sql")
ENGINE_TABLE = "ledger.job"


def choose_applications(settings: Settings, dsn: str) -> Settings:
    """Return the settings with the applications that are on: those of DULY_APPS, or else those that the database has.

    A database without the engine changes nothing, so that a process started before `duly migrate` serves all of them.
    """
    if "apps" in settings.model_fields_set:
        return settings
    tables = {each.name: first_table(each, settings) for each in list_applications(settings.apps)}
    existing = list_existing_tables(dsn, [ENGINE_TABLE, *tables.values()])
    if ENGINE_TABLE not in existing:
        return settings
    names = [name for name, table in tables.items() if table in existing]
    return settings.model_copy(update={"apps": ",".join(names) or NONE})


def list_existing_tables(dsn: str, tables: Sequence[str]) -> Sequence[str]:
    """List which of these tables exist; raises Unavailable."""
    try:
        with psycopg.connect(with_keepalive(dsn)) as connection:
            rows = connection.execute(SQL.list_existing_tables, {"tables": tables}).fetchall()
    except psycopg.OperationalError as error:
        raise Unavailable(f"the database did not answer: {error}") from None
    return [table for (table,) in rows]


def first_table(application: Application, settings: Settings) -> str:
    """Return the table of an application that it cannot do without, in the schema that the settings name."""
    schema, _, table = application.machines[0].table.partition(".")
    return f"{settings.db_schema if schema == Names().ingest else schema}.{table}"
