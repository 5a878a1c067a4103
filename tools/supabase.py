"""Compile the schema for Supabase: plain SQL, a file for the engine and one per application.

A release adds files of its own; those of an earlier release are never changed.

Supabase does not use Alembic and does not promise one transaction per file, so the version table is left out, and
settings that Alembic runs make per transaction are set, and reset, for the session. Supabase's public roles get no
privileges.
"""

from duly.db.migrations import BASE_FUNCTIONS, BRANCHES, DIRECTORY, Names, fill, prelude, split_statements, to_array
from duly.db.migrations.objects import GRANTS, name_object, schema_values, update_statements

FIRST = 20261115000001  # the first file of release 0.1.0
RELEASE = "0_1_0"
HEADER = """\
-- duly {release}, {branch}: compiled from the migrations and functions of duly; do not edit.

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
            and n.nspname = any ({'schemas'}::text[])
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


def compile_migrations(names: Names | None = None) -> dict[str, str]:
    """Compile every branch, the engine first; return the texts by file name."""
    return {
        f"{FIRST + nth}_duly_{RELEASE}_{branch}.sql": compile_branch(branch, names or Names())
        for nth, branch in enumerate(BRANCHES)
    }


def compile_branch(branch: str, names: Names) -> str:
    """Compile the tables, functions, guards and grants of a branch to one self-contained file."""
    values = schema_values(names, [branch])
    sql = DIRECTORY / "sql"
    revision = f"{branch}_0001"
    parts = [prelude(names, [branch]).replace("set local ", "set ")]
    if branch == "engine":
        base = fill(BASE_FUNCTIONS.read_text(), values)
        parts += [f"{each};" for each in split_statements(base) if name_object(each) != GRANTS]
    parts += [fill((sql / f"{revision}.up.sql").read_text(), values)]
    parts += [f"{each};" for each in update_statements(branch, names, {})]
    if (data := sql / f"{revision}.data.sql").exists():
        parts += [fill(data.read_text(), values)]
    header = HEADER.format(release=RELEASE.replace("_", "."), branch=branch)
    made = to_array([*BRANCHES[branch].schemas_in(names), *BRANCHES[branch].shared_schemas])
    return header + "\n\n".join(part.strip() for part in parts) + "\n" + fill(FOOTER, {**values, "schemas": made})
