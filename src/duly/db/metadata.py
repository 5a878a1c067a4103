"""The tables as SQLAlchemy sees them: for drift checks, never for running statements.

Names follow the ledger contract: `pk_job`, `fk_job_event_job_job_id`, `idx_job__status_created_at`, `uq_users__uid`,
`ck_job__status_finished_at_consistency`, so that a violated constraint becomes a domain's error by its name.
"""

import importlib
import importlib.util
import pkgutil

from sqlalchemy import MetaData

import duly

__all__ = ["every_table", "metadata"]

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
