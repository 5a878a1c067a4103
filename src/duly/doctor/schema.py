"""Schema: the revision of the tables, and differences from the contracts."""

from collections.abc import Sequence

from psycopg import errors

from duly.db.error_table import MISSING_OBJECT_ERRORS
from duly.db.migrations import names_from_settings
from duly.db.queries import load_queries
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, bad, ok, warn
from duly.verify.access import quote_identifier
from duly.verify.backend import compare_backend
from duly.verify.contract import compare, installed_contracts, list_contracts

SQL = load_queries(__file__, "schema.sql")


def check_schema(context: CheckContext) -> Sequence[Note]:
    """Check that the database is at the revision this duly was written for."""
    from duly.db.migrate import branch_revisions, newest_revisions, script_directory  # with Alembic and SQLAlchemy

    newest = newest_revisions()
    try:
        found = list_revisions(context)
    except MISSING_OBJECT_ERRORS:
        found = []
    except errors.InsufficientPrivilege:
        hidden = f"{context.login} may not read duly.alembic_version"
        return [
            warn(
                f"could not be checked: {hidden}",
                f"grant select on duly.alembic_version to {quote_identifier(context.login)}",
            )
        ]
    if not found and context.is_backend_only:
        return [ok(f"none, and none is needed: a backend owns the tables of {context.settings.db_schema}")]
    if not found:
        return [
            note_unrecorded_revision(", ".join(newest))
            if has_tables(context)
            else bad(f"none; this duly needs {newest[0]}", "duly migrate")
        ]
    known = {script.revision for script in script_directory().walk_revisions()}
    if unknown := sorted(set(found) - known):
        text = f"{', '.join(unknown)} is unknown; the newest revisions of this duly are {', '.join(newest)}"
        return [warn(text, "upgrade duly")]
    installed = branch_revisions(found)
    if behind := [revision for revision in installed if revision not in newest]:
        return [bad(f"{', '.join(behind)} is behind {', '.join(newest)}", "duly migrate")]
    return [ok(f"{', '.join(installed)}, the newest")]


def list_revisions(context: CheckContext) -> list[str]:
    """Return the recorded revision, queried as the owner role, which owns that table."""
    return [row["revision"] for row in context.query(SQL.list_revisions, role=context.settings.owner_role)]


def has_tables(context: CheckContext) -> bool:
    """Return whether tables of duly exist, no matter who created them."""
    return context.query_one(SQL.has_tables)["has_tables"]


def note_unrecorded_revision(newest: str) -> Note:
    """Return the note on tables without a recorded revision, as on Supabase."""
    return warn(
        f"the tables exist, but duly migrate did not create them, so no revision is recorded; this duly needs {newest}",
        f"duly verify compares them; if they differ, apply the files of supabase/migrations up to {newest}; "
        "do not run duly migrate, which would try to create everything again",
    )


def check_contracts(context: CheckContext) -> Sequence[Note]:
    """Check that the catalogue matches the contracts."""
    settings, roles = context.settings, names_from_settings(context.settings)
    contracts = ["ingest"] if context.is_backend_only else list_contracts(settings.apps)
    is_owned = context.is_owned_by_backend and "ingest" in contracts
    states = [settings.pending_state, settings.processing_state, settings.done_state, settings.failed_state]
    with context.short_transaction() as connection:
        installed = installed_contracts(connection, roles)
        ours = [name for name in contracts if name in installed and not (is_owned and name == "ingest")]
        differences = sum(len(compare(connection, contract, roles)) for contract in ours)
        differences += len(compare_backend(connection, settings.db_schema, states)) if is_owned else 0
    compared = [*ours, "ingest"] if is_owned else ours
    found = f"{differences} differences from {', '.join(compared)}"
    return [warn(found, "duly verify")] if differences else [ok(found)]
