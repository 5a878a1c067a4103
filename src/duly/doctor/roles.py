"""Roles: existence, memberships and rights, and row level security."""

from collections.abc import Sequence

from duly.db.privileges import SQL as PRIVILEGES
from duly.db.privileges import TABLES, format_grants, privilege_parameters, required_privileges, select_missing
from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, bad, ok, warn
from duly.verify.access import quote_identifier
from duly.verify.backend import has_contract_event_key

SQL = load_queries(__file__, "roles.sql")


def check_roles(context: CheckContext) -> Sequence[Note]:
    """Check that the four roles exist, and that the components can act as theirs."""
    if context.is_backend_only:
        return note_rights(context)
    settings = context.settings
    roles = list_roles(context, [settings.owner_role, *context.components])
    missing = [row["name"] for row in roles if not row["is_there"]]
    if missing:
        return [bad(f"missing: {', '.join(missing)}", "duly migrate")]
    working = [row for row in roles if row["name"] in (settings.worker_role, settings.api_role)]
    if context.is_owned_by_backend and not context.is_embedded and not any(row["may_be_taken"] for row in working):
        return note_rights(context)  # this is the login of a worker on the backend's tables
    notes = note_logins(working) if context.is_embedded else note_memberships(context.login, working)
    return [*notes, *note_members(list_memberships(context))]


def note_rights(context: CheckContext) -> Sequence[Note]:
    """Note missing rights of a login on a backend's tables, where a worker has no role."""
    schema = context.settings.db_schema
    with context.short_transaction() as connection:
        reads_events = has_contract_event_key(connection, schema)
    rights = required_privileges(schema, TABLES, reads_events=reads_events)
    missing, login = select_missing(
        rights, context.query(PRIVILEGES.find_missing_privileges, **privilege_parameters(rights))
    )
    if missing:
        return [bad(f"{login} lacks privileges that the ingest worker needs", "; ".join(format_grants(missing, login)))]
    return [ok(f"{context.login} may do what the ingest worker does; on a backend's tables no role of duly is needed")]


def list_memberships(context: CheckContext) -> Sequence[Row]:
    """Return components that are members of another role of duly and should not be."""
    settings = context.settings
    return context.query(
        SQL.list_memberships,
        components=context.components,
        roles=[settings.owner_role, *context.components],
        worker=settings.worker_role,
        api=settings.api_role,
    )


def note_members(found: Sequence[Row]) -> Sequence[Note]:
    """Note components that can act as another role, and so have rights they should not have."""
    return [
        bad(
            f"{row['member']} is a member of {row['role']} and has its rights",
            f"revoke {quote_identifier(row['role'])} from {quote_identifier(row['member'])}",
        )
        for row in found
    ]


def list_roles(context: CheckContext, names: Sequence[str]) -> Sequence[Row]:
    """Return these roles in this order, also missing ones."""
    return context.query(SQL.list_roles, names=names)


def note_logins(working: Sequence[Row]) -> Sequence[Note]:
    """Note, on the embedded server, whether each component can log in as its role."""
    return [
        ok(f"{row['name']} logs in by itself")
        if row["can_login"]
        else warn(f"{row['name']} cannot log in by itself yet", "duly up")
        for row in working
    ]


def note_memberships(login: str, working: Sequence[Row]) -> Sequence[Note]:
    """Note, on other servers, whether the login can act as the roles; a login named as one needs only that."""
    allowed = [row["name"] for row in working if row["may_be_taken"]]
    denied = [row["name"] for row in working if not row["may_be_taken"]]
    fix = f"grant {', '.join(map(quote_identifier, denied))} to {quote_identifier(login)}"
    if not allowed:
        return [bad(f"{login} may act neither as {' nor as '.join(denied)}", fix)]
    found = f"{login} may act as {' and as '.join(allowed)}"
    if not denied or login in allowed:
        return [ok(found)]
    return [warn(f"{found}, not as {denied[0]}", f"{fix}; nothing to do if that component has its own login")]


def check_row_security(context: CheckContext) -> Sequence[Note]:
    """Check that row level security applies to the components."""
    if context.is_backend_only:
        return [ok("duly's tables do not exist here")]
    names = context.components if context.is_embedded else [*context.components, context.login]
    found = list_exemptions(context, names)
    if not found:
        return [warn(f"there is no role {' or '.join(names)} yet", "duly migrate")]
    notes = [note for row in found for note in note_exemption(context, row)]
    return notes or [ok(f"applies to {', '.join(row['name'] for row in found)}")]


def list_exemptions(context: CheckContext, names: Sequence[str]) -> Sequence[Row]:
    """Return what exempts each existing role from row level security."""
    return context.query(SQL.list_exemptions, names=names, schemas=context.schemas)


def note_exemption(context: CheckContext, role: Row) -> Sequence[Note]:
    """Note why row level security does not apply to a role, if so."""
    name, is_component = role["name"], role["name"] in context.components
    lost = f"row level security does not apply to {name if is_component else f'this login, {name}'}"
    owner = quote_identifier(context.settings.owner_role)
    if role["is_superuser"]:
        return [
            warn(
                f"{lost}: a superuser",
                f"alter role {quote_identifier(name)} nosuperuser" if is_component else suggest_own_login(context),
            )
        ]
    if role["bypasses"]:
        return [warn(f"{lost}: it has BYPASSRLS", f"alter role {quote_identifier(name)} nobypassrls")]
    if is_component and role["things"]:
        return [warn(f"{name} owns {role['things']} objects", f"reassign owned by {quote_identifier(name)} to {owner}")]
    if role["tables"]:
        fix = (
            suggest_own_login(context)
            if role["things"]
            else f"revoke {owner} from {quote_identifier(name)}, and migrate with another login"
        )
        return [warn(f"{lost}: it owns {role['tables']} tables", fix)]
    return []


def suggest_own_login(context: CheckContext) -> str:
    """Return the statements that create a login for the components."""
    roles = f"{quote_identifier(context.settings.worker_role)}, {quote_identifier(context.settings.api_role)}"
    return f"create role duly_app login; grant {roles} to duly_app; then use duly_app in DATABASE_URL"
