"""What is in it: the revision of the tables, and what they should be."""

from collections.abc import Sequence

from psycopg import errors

from duly.db.migrate import scripts
from duly.db.migrations import names_of
from duly.db.queries import load_queries
from duly.doctor.case import Case
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.words import quoted
from duly.verify.backend import compare_backend
from duly.verify.contract import CONTRACTS, compare

__all__ = ["check_contracts", "check_schema", "list_revisions"]

SQL = load_queries(__file__, "content.sql")


def check_schema(case: Case) -> Sequence[Note]:
    """Is the database at the revision this duly was written for?"""
    order = [script.revision for script in scripts().walk_revisions()]  # the newest first
    try:
        found = list_revisions(case)
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        found = []
    except errors.InsufficientPrivilege:
        hidden = f"{case.login} may not read duly.alembic_version"
        return [
            warn(f"could not be checked: {hidden}", f"grant select on duly.alembic_version to {quoted(case.login)}")
        ]
    if not found and case.is_only_backends:
        return [ok(f"none, and none is needed: a backend owns the tables of {case.settings.db_schema}")]
    if not found:
        return [unbooked(order[0]) if has_tables(case) else bad(f"none; this duly wants {order[0]}", "duly migrate")]
    if found == order[:1]:
        return [ok(f"{order[0]}, the newest")]
    if len(found) == 1 and found[0] in order:
        return [bad(f"{found[0]}, {order.index(found[0])} behind {order[0]}", "duly migrate")]
    return [warn(f"{', '.join(found)}, of another duly; this one knows {order[0]} as the newest", "upgrade duly")]


def list_revisions(case: Case) -> list[str]:
    """The revision the database is at, asked as the owner, whose book it is."""
    return [row["revision"] for row in case.ask(SQL.list_revisions, role=case.settings.owner_role)]


def has_tables(case: Case) -> bool:
    """Are tables of ours there, whoever made them?"""
    return case.get(SQL.has_tables)["has_tables"]


def unbooked(newest: str) -> Note:
    """Tables of which nobody wrote down the revision, as on Supabase: what they are can only be seen on them."""
    return warn(
        f"the tables are there, and duly migrate did not make them, so no revision is written down; this duly wants "
        f"{newest}",
        f"duly verify says whether they are that; if not, apply the files of supabase/migrations up to {newest}, and "
        "leave duly migrate alone, which would try to make everything again",
    )


def check_contracts(case: Case) -> Sequence[Note]:
    """Is the catalogue what the contracts say?"""
    is_owned, contracts = case.is_backends, ["ingest"] if case.is_only_backends else list(CONTRACTS)
    settings, roles = case.settings, names_of(case.settings)
    states = [settings.pending_state, settings.processing_state, settings.done_state, settings.failed_state]
    with case.quietly() as connection:
        ours = [contract for contract in contracts if not (is_owned and contract == "ingest")]
        differences = sum(len(compare(connection, contract, roles)) for contract in ours)
        differences += len(compare_backend(connection, settings.db_schema, states)) if is_owned else 0
    found = f"{differences} differences from {', '.join(contracts)}"
    return [warn(found, "duly verify")] if differences else [ok(found)]
