"""The tables as SQLAlchemy sees them: for drift checks, never for running statements.

Names follow the ledger contract: `pk_job`, `fk_job_event_job_job_id`, `idx_job__status_created_at`, `uq_users__uid`,
`ck_job__status_finished_at_consistency`, so that a violated constraint becomes a domain's error by its name.
"""

import importlib
import importlib.util
import pkgutil

from sqlalchemy import MetaData
from sqlalchemy.dialects.postgresql import ENUM

import duly

__all__ = ["every_table", "metadata", "tables_as_named"]

INGEST = "schedule_ingest"  # the schema in which the ingest tables are declared

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s_%(column_0_N_name)s",
        "ix": "idx_%(table_name)s__%(column_0_N_name)s",
        "uq": "uq_%(table_name)s__%(column_0_N_name)s",
        "ck": "ck_%(table_name)s__%(constraint_name)s",
    }
)


def every_table() -> MetaData:
    """The tables of all rooms: each room that has some declares them in its `tables.py`, found here by that name."""
    for room in pkgutil.iter_modules(duly.__path__, "duly."):
        if room.ispkg and importlib.util.find_spec(f"{room.name}.tables"):
            importlib.import_module(f"{room.name}.tables")
    return metadata


def tables_as_named(ingest: str | None) -> MetaData:
    """The tables of all rooms as an installation has them: those of ingest in this schema; for None, without them."""

    def schema_of(schema: str | None) -> str:
        assert schema, "every table of ours has a schema"
        return ingest if ingest and schema == INGEST else schema

    named = MetaData(naming_convention=metadata.naming_convention)
    for table in every_table().sorted_tables:
        if table.schema != INGEST or ingest:
            copy = table.to_metadata(
                named,
                schema=schema_of(table.schema),
                referred_schema_fn=lambda _table, _to, _constraint, referred: schema_of(referred),
            )
            for column in copy.columns:
                if isinstance(kind := column.type, ENUM):  # a type is copied with the schema it was declared in
                    column.type = ENUM(*kind.enums, name=kind.name, schema=copy.schema, create_type=False)
    return named
