"""The database of the contract's own tests, which run by `python -m unittest` as well as by pytest.

TEST_DATABASE_URL, or DATABASE_URL     that one, if its name says that it is for tests:
    a backend's tables                 used as they are, with the lease migration; nothing is migrated
    duly's tables                      used as they are
    neither                            migrated for the tests, and what that made is removed afterwards, roles too
neither variable                       one of our own, on a private server that goes afterwards
a run of pytest                        one of our own, on the run's server
"""

import os
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from duly.apps.ingest.table_support import LEASE_MIGRATION
from duly.configuration.engine import parse_address, plain_address
from duly.db.admin import create_database
from duly.db.migrate import migrate
from duly.db.migrations import names_from_settings
from duly.errors import NotATestDatabase, NotMigrated
from duly.settings import is_for_tests, load_settings
from duly.testing.databases import TestDatabases, build_test_template, database_prefix, open_server, shared_directory

VARIABLES = ("TEST_DATABASE_URL", "DATABASE_URL")
RUN_HOME = "DULY_TEST_RUN_HOME"  # of pytest
PLACE = Path("/tmp")  # short enough for a socket
LEFT = """
update {}.capture_session
set state = '{failed}', error = 'left behind by another test', locked_at = null, locked_by = null, lease_seconds = null
where state::text in ('{pending}', '{processing}')
"""
HAS_SESSIONS = """
select count(*) filter (where c.relname = 'capture_session') > 0
from pg_catalog.pg_class as c inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace where n.nspname = %s
"""
HAS_LEASES = """
select count(*) > 0
from pg_catalog.pg_attribute as a inner join pg_catalog.pg_class as c on c.oid = a.attrelid
inner join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = 'capture_session' and a.attname = 'lease_seconds'
"""
ROLES = "select rolname from pg_catalog.pg_roles where rolname = any (%s)"
SCHEMAS = "select nspname from pg_catalog.pg_namespace"


def given_database() -> str | None:
    """The address that the environment names; NotATestDatabase when that is not one for tests."""
    for variable in VARIABLES:
        if dsn := os.environ.get(variable):
            name = parse_address(dsn).get("dbname", "")
            if not is_for_tests(name):
                raise NotATestDatabase(f"{variable} names the database '{name}', which is not marked as one for tests")
            return plain_address(dsn)
    return None


@contextmanager
def database_for_tests() -> Generator[str, None, None]:
    """The address of a database with ingest tables in which no session waits."""
    if run_home := os.environ.get(RUN_HOME):
        with open_server(Path(run_home)) as server:
            prefix = database_prefix(Path(run_home))
            databases = TestDatabases(server, prefix, template=f"{prefix}_movable")
            databases.build_template(build_test_template)
            with databases.clone(f"contract_{uuid4().hex[:8]}") as dsn:
                yield dsn
    elif dsn := given_database():
        with tables_in(dsn):
            yield dsn
    else:
        with shared_directory(PLACE / f"duly-tests-{uuid4().hex}") as directory, open_server(directory) as server:
            dsn = create_database(server, "contract_test")
            migrate(dsn, names_from_settings(load_settings()))
            yield dsn


@contextmanager
def tables_in(dsn: str) -> Generator[None, None, None]:
    """See that there are tables, in which no session of an earlier run waits; those that we make go afterwards."""
    settings = load_settings()
    names = names_from_settings(settings)
    with psycopg.connect(dsn, autocommit=True) as admin:
        made_here = not admin.execute(HAS_SESSIONS, [names.ingest]).fetchall()[0][0]
        roles = [names.owner, names.worker, names.api, names.readonly]
        roles_before = {role for (role,) in admin.execute(ROLES, [roles])}
        schemas_before = {name for (name,) in admin.execute(SCHEMAS)}
        if made_here:
            migrate(dsn, names)
        if not admin.execute(HAS_LEASES, [names.ingest]).fetchall()[0][0]:
            raise NotMigrated(f"the tables of {names.ingest} have no leases; run: psql -f {LEASE_MIGRATION}")
        states = {"pending": settings.pending_state, "processing": settings.processing_state}
        admin.execute(LEFT.format(names.ingest, failed=settings.failed_state, **states).encode())
        try:
            yield
        finally:
            if made_here:
                remove(admin, schemas_before, [role for role in roles if role not in roles_before])


def remove(admin: psycopg.Connection[Any], schemas_before: Collection[str], roles: Sequence[str]) -> None:
    """Take away what a migration made in a database that had none of it."""
    for (name,) in admin.execute(SCHEMAS).fetchall():
        if name not in schemas_before and not name.startswith("pg_"):
            admin.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
    for role in roles:
        admin.execute(sql.SQL("drop owned by {} cascade").format(sql.Identifier(role)))
        admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
