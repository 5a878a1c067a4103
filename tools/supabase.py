"""Compile the migrations for Supabase: one plain SQL file per revision, for `supabase/migrations/`.

Supabase does not use Alembic and does not promise one transaction per file, so the version table is left out, and
settings that Alembic runs make per transaction are set, and reset, for the session. Supabase's public roles get no
privileges.
"""

from dataclasses import asdict

from duly.configuration.engine import OUR_SCHEMAS
from duly.db.migrate import script_directory
from duly.db.migrations import DIRECTORY, Names, fill, prelude

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
OURS = ", ".join(f"'{schema}'" for schema in OUR_SCHEMAS)  # the only list of them


def compile_migrations(roles: Names | None = None) -> dict[str, str]:
    """Compile every revision in order; return the texts by file name."""
    names = roles or Names()
    revisions = [script.revision for script in reversed(list(script_directory().walk_revisions()))]
    return {
        f"20261115{nth:06}_{revision}.sql": compile_one(revision, names) for nth, revision in enumerate(revisions, 1)
    }


def compile_one(revision: str, roles: Names) -> str:
    """Compile one revision to a self-contained file."""
    opening = prelude(roles).replace("set local ", "set ")
    body = fill((DIRECTORY / "sql" / f"{revision}.up.sql").read_text(), asdict(roles))
    return (
        HEADER.format(revision=revision)
        + opening
        + ";\n\n"
        + body
        + fill(FOOTER.replace("{schemas}", OURS), asdict(roles))
    )
