"""A fresh database for every story, with a clock that can be moved; and never in the place of somebody's own."""

from psycopg import connect

from duly.db.admin import create_database, drop_database, has_database, rename_database
from duly.db.embedded import EmbeddedServer
from duly.db.location import EMBEDDED_DATABASE, Database
from duly.errors import HomeUnusable
from duly.testing.clock import has_test_clock
from duly.testing.databases import build_test_template

DRAFT = "duly_demo_draft"  # until it has tables and a clock it is nobody's database


def make_fresh(server: EmbeddedServer) -> Database:
    """The database of a story, where an earlier one may have left its own; refused where no demo made what is there."""
    with connect(server.dsn(), autocommit=True) as admin:
        if has_database(admin, EMBEDDED_DATABASE) and not was_made_here(server.dsn(EMBEDDED_DATABASE)):
            raise HomeUnusable(
                f"the database in {server.plan.home} was not made by a demo, and a demo begins by throwing its own "
                "away; move that directory elsewhere, or set DULY_HOME to another one"
            )
        drop_database(admin, DRAFT)
        build_test_template(create_database(server.dsn(), DRAFT))
        drop_database(admin, EMBEDDED_DATABASE)
        rename_database(admin, DRAFT, EMBEDDED_DATABASE)
    return Database(server.dsn(EMBEDDED_DATABASE), server)


def was_made_here(dsn: str) -> bool:
    """Only a demo, or a test, gives a database a clock that can be moved."""
    with connect(dsn, autocommit=True) as connection:
        return has_test_clock(connection)
