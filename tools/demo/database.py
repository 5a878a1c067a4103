"""Create a fresh demo database with a movable clock; never replace a database that a demo did not create."""

from psycopg import connect

from duly.db.admin import create_database, drop_database, has_database, rename_database
from duly.db.embedded import EmbeddedServer
from duly.db.location import EMBEDDED_DATABASE, Database
from duly.errors import HomeUnusable
from duly.testing.clock import has_test_clock
from duly.testing.databases import build_test_template

DRAFT = "duly_demo_draft"  # renamed once it has its tables and its clock


def create_demo_database(server: EmbeddedServer) -> Database:
    """Replace the database of an earlier demo by a fresh one; refuse to replace any other database."""
    with connect(server.dsn(), autocommit=True) as admin:
        if has_database(admin, EMBEDDED_DATABASE) and not was_made_by_a_demo(server.dsn(EMBEDDED_DATABASE)):
            raise HomeUnusable(
                f"the database in {server.plan.home} was not made by a demo, and a demo drops the database it finds; "
                "move that directory elsewhere, or set DULY_HOME to another one"
            )
        drop_database(admin, DRAFT)
        build_test_template(create_database(server.dsn(), DRAFT))
        drop_database(admin, EMBEDDED_DATABASE)
        rename_database(admin, DRAFT, EMBEDDED_DATABASE)
    return Database(server.dsn(EMBEDDED_DATABASE), server)


def was_made_by_a_demo(dsn: str) -> bool:
    """Check whether the database has a movable clock, which only demos and tests install."""
    with connect(dsn, autocommit=True) as connection:
        return has_test_clock(connection)
