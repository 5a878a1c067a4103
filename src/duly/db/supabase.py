"""The migrations compiled for Supabase: one plain SQL file per revision, for `supabase/migrations/`.

There is no Alembic there to keep a book, and nobody promises one transaction per file; so the version table is left out
and what our own runs set for a transaction is set, and reset, for the session. Supabase's public roles get nothing.
"""

from dataclasses import asdict

from duly.db.migrate import scripts
from duly.db.migrations import DIRECTORY, Names, fill, prelude
from duly.settings import OUR_SCHEMAS

__all__ = ["compile_migrations"]

HEADER = """\
-- Compiled from the Alembic revision {revision} by duly; do not edit.

"""
FOOTER = """
do $closing$
declare
    found record;
begin
    for found in
        select r.rolname as guest, n.nspname as home
        from pg_catalog.pg_roles as r
        cross join pg_catalog.pg_namespace as n
        where r.rolname in ('anon', 'authenticated')
            and n.nspname in ({schemas}, {'ingest'})
            and pg_get_userbyid(n.nspowner) = current_user  -- a backend's schema is a backend's
    loop
        execute format('revoke all on schema %I from %I', found.home, found.guest);
        execute format('revoke all on all tables in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all sequences in schema %I from %I', found.home, found.guest);
        execute format('revoke all on all routines in schema %I from %I', found.home, found.guest);
    end loop;
end
$closing$;

reset role;
reset lock_timeout;
reset client_min_messages;
"""
OURS = ", ".join(f"'{schema}'" for schema in OUR_SCHEMAS)  # the one list of them


def compile_migrations(roles: Names | None = None) -> dict[str, str]:
    """File name to text, for every revision in order."""
    names = roles or Names()
    revisions = [script.revision for script in reversed(list(scripts().walk_revisions()))]
    return {
        f"20261115{nth:06}_{revision}.sql": compile_one(revision, names) for nth, revision in enumerate(revisions, 1)
    }


def compile_one(revision: str, roles: Names) -> str:
    """One revision as a file that stands alone."""
    opening = prelude(roles).replace("set local ", "set ")
    body = fill((DIRECTORY / "sql" / f"{revision}.up.sql").read_text(), asdict(roles))
    return (
        HEADER.format(revision=revision)
        + opening
        + ";\n\n"
        + body
        + fill(FOOTER.replace("{schemas}", OURS), asdict(roles))
    )
