"""Who we are: are the roles there, can the components take theirs, and does row level security bind them?"""

from collections.abc import Sequence

from duly.db.queries import load_queries
from duly.db.rights import SQL as RIGHTS
from duly.db.rights import TABLES, grants_of, missing_of, parameters_of, rights_on
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.words import quoted
from duly.verify.backend import has_owners_key

__all__ = ["check_roles", "check_row_security"]

SQL = load_queries(__file__, "roles.sql")


def check_roles(case: Case) -> Sequence[Note]:
    """Are the four roles there, and can the components take theirs?"""
    if case.is_only_backends:
        return note_rights(case)
    settings = case.settings
    roles = list_roles(case, [settings.owner_role, *case.components])
    missing = [row["name"] for row in roles if not row["is_there"]]
    if missing:
        return [bad(f"missing: {', '.join(missing)}", "duly migrate")]
    working = [row for row in roles if row["name"] in (settings.worker_role, settings.api_role)]
    if case.is_backends and not case.is_embedded and not any(row["may_be_taken"] for row in working):
        return note_rights(case)  # the login of a worker on the backend's tables, which is nobody else
    notes = note_logins(working) if case.is_embedded else note_memberships(case.login, working)
    return [*notes, *note_members(list_memberships(case))]


def note_rights(case: Case) -> Sequence[Note]:
    """On a backend's tables a worker is its login: has that the rights it needs?"""
    schema = case.settings.db_schema
    with case.quietly() as connection:
        reads_events = has_owners_key(connection, schema)
    rights = rights_on(schema, TABLES, reads_events=reads_events)
    missing, login = missing_of(rights, case.ask(RIGHTS.find_missing_rights, **parameters_of(rights)))
    if missing:
        return [bad(f"{login} lacks rights that the ingest worker needs", "; ".join(grants_of(missing, login)))]
    return [ok(f"{case.login} may do what the ingest worker does; on a backend's tables it needs no role of duly's")]


def list_memberships(case: Case) -> Sequence[Row]:
    """Which components are members of another of our roles, and should not be."""
    settings = case.settings
    return case.ask(
        SQL.list_memberships,
        components=case.components,
        roles=[settings.owner_role, *case.components],
        worker=settings.worker_role,
        api=settings.api_role,
    )


def note_members(found: Sequence[Row]) -> Sequence[Note]:
    """A component that can act as another role can do what was kept from it."""
    return [
        bad(
            f"{row['member']} is a member of {row['role']}, and can do all that it may",
            f"revoke {quoted(row['role'])} from {quoted(row['member'])}",
        )
        for row in found
    ]


def list_roles(case: Case, names: Sequence[str]) -> Sequence[Row]:
    """Each of these roles in this order, also one that is not there."""
    return case.ask(SQL.list_roles, names=names)


def note_logins(working: Sequence[Row]) -> Sequence[Note]:
    """On the embedded server: each component logs in as its role."""
    return [
        ok(f"{row['name']} logs in by itself")
        if row["can_login"]
        else warn(f"{row['name']} cannot log in by itself yet", "duly up")
        for row in working
    ]


def note_memberships(login: str, working: Sequence[Row]) -> Sequence[Note]:
    """Elsewhere: the login takes the role; one that bears a component's own name is that component's alone."""
    may = [row["name"] for row in working if row["may_be_taken"]]
    may_not = [row["name"] for row in working if not row["may_be_taken"]]
    fix = f"grant {', '.join(map(quoted, may_not))} to {quoted(login)}"
    if not may:
        return [bad(f"{login} may act neither as {' nor as '.join(may_not)}", fix)]
    found = f"{login} may act as {' and as '.join(may)}"
    if not may_not or login in may:
        return [ok(found)]
    return [warn(f"{found}, not as {may_not[0]}", f"{fix}; or nothing, if that component has a login of its own")]


def check_row_security(case: Case) -> Sequence[Note]:
    """Does row level security bind those who work here?"""
    if case.is_only_backends:
        return [ok("none of duly's tables is here to be bound by it")]
    names = case.components if case.is_embedded else [*case.components, case.login]
    found = list_exemptions(case, names)
    if not found:
        return [warn(f"there is no role {' or '.join(names)} yet", "duly migrate")]
    notes = [note for row in found for note in note_exemption(case, row)]
    return notes or [ok(f"binds {', '.join(row['name'] for row in found)}")]


def list_exemptions(case: Case, names: Sequence[str]) -> Sequence[Row]:
    """What might lift row level security off each of these roles; one that is not there is left out."""
    return case.ask(SQL.list_exemptions, names=names, schemas=case.schemas)


def note_exemption(case: Case, role: Row) -> Sequence[Note]:
    """Why it does not bind a role, if it does not."""
    name, is_component = role["name"], role["name"] in case.components
    lost = f"row level security does not bind {name if is_component else f'this login, {name}'}"
    owner = quoted(case.settings.owner_role)
    if role["is_superuser"]:
        return [
            warn(f"{lost}: a superuser", f"alter role {quoted(name)} nosuperuser" if is_component else own_login(case))
        ]
    if role["bypasses"]:
        return [warn(f"{lost}: it has BYPASSRLS", f"alter role {quoted(name)} nobypassrls")]
    if is_component and role["things"]:
        return [warn(f"{name} owns {role['things']} things", f"reassign owned by {quoted(name)} to {owner}")]
    if role["tables"]:
        fix = (
            own_login(case) if role["things"] else f"revoke {owner} from {quoted(name)}, and let another login migrate"
        )
        return [warn(f"{lost}: it owns {role['tables']} tables", fix)]
    return []


def own_login(case: Case) -> str:
    """How the components get a login that is nothing but theirs."""
    roles = f"{quoted(case.settings.worker_role)}, {quoted(case.settings.api_role)}"
    return f"create role duly_app login; grant {roles} to duly_app; then name duly_app in DATABASE_URL"
