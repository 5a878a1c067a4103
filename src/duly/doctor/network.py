"""Network: poolers, the direct address, and NOTIFY."""

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from psycopg import errors

from duly.db.location import format_location
from duly.db.pool import connect, is_behind_pooler
from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.connection import APPLICATION_NAME, GRACE_SECONDS, Connection, disconnect_after, open_connection
from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.formatting import error_reason
from duly.doctor.schema import list_revisions
from duly.errors import Unavailable

SQL = load_queries(__file__, "network.sql")


def is_pooled(context: CheckContext, address: str) -> bool:
    """Return whether this address leads through a pooler."""

    async def connect_and_check() -> bool:
        async with asyncio.timeout(context.limits.query_seconds + GRACE_SECONDS):
            async with await connect(address, name=APPLICATION_NAME) as connection:
                return await is_behind_pooler(connection)

    return asyncio.run(connect_and_check())


def check_pooler(context: CheckContext) -> Sequence[Note]:
    """Check that the direct address avoids the pooler and leads to the same database."""
    pooled = is_pooled(context, context.address)
    if not context.settings.database_direct_url:
        if not pooled:
            return [ok("none")]
        polling = f"LISTEN does not work, so workers poll every {context.settings.poll_seconds:g} s"
        found = f"DATABASE_URL goes through a pooler: {polling}, and migrations need a direct address"
        return [warn(found, "set DATABASE_DIRECT_URL to the server itself")]
    direct = context.settings.database_direct_url.get_secret_value()
    try:
        notes = [*note_pooled(context, direct), *note_other_database(context, direct)]
    except (Unavailable, TimeoutError) as error:
        found = f"DATABASE_DIRECT_URL, {format_location(direct)}, does not respond: {error_reason(error)}"
        return [bad(found, "set DATABASE_DIRECT_URL to the server itself")]
    route = "DATABASE_URL goes through a pooler" if pooled else "no pooler"
    return notes or [ok(f"{route}; DATABASE_DIRECT_URL leads to the same database without one")]


def note_pooled(context: CheckContext, direct: str) -> Sequence[Note]:
    """Note that the direct address goes through a pooler."""
    if not is_pooled(context, direct):
        return []
    found = f"DATABASE_DIRECT_URL, {format_location(direct)}, goes through a pooler itself"
    return [bad(found, "set DATABASE_DIRECT_URL to the host and port of the server itself")]


def note_other_database(context: CheckContext, direct: str) -> Sequence[Note]:
    """Note that the direct address leads to another database."""
    with open_connection(direct) as connection:
        actual = identify(CheckContext(connection, context.settings, context.limits))
    expected = identify(context)
    differences = [
        f"{name} {actual[name]} instead of {value}"
        for name, value in expected.items()
        if value and actual[name] and value != actual[name]
    ]
    if not differences:
        return []
    found = f"DATABASE_DIRECT_URL leads to another database: {', '.join(differences)}"
    return [bad(found, "set DATABASE_URL and DATABASE_DIRECT_URL to one database")]


def identify(context: CheckContext) -> Mapping[str, str | None]:
    """Return what identifies a database; None for what this login may not see."""
    identity = identify_database(context)
    if system := find_system_identifier(context):
        return {**identity, "system": system, "revision": None}
    revision = None
    with suppress(errors.InsufficientPrivilege, errors.UndefinedTable):
        revision = ", ".join(list_revisions(context))
    return {**identity, "system": None, "revision": revision}


def identify_database(context: CheckContext) -> Row:
    """Return the name and the oid of the database."""
    return context.query_one(SQL.identify_database)


def find_system_identifier(context: CheckContext) -> str | None:
    """Return the system identifier of the server; None if this login may not see it."""
    with suppress(errors.InsufficientPrivilege):
        return context.query_one(SQL.find_system_identifier)["system"]
    return None


def check_listen(context: CheckContext) -> Sequence[Note]:
    """Check that a NOTIFY from the address of the workers arrives on the direct one."""
    direct = context.settings.database_direct_url
    address = direct.get_secret_value() if direct else context.address
    variable = "DATABASE_DIRECT_URL" if direct else "DATABASE_URL"
    fix = "set DATABASE_DIRECT_URL to the server itself"
    if is_pooled(context, address):
        return [warn(f"not tested: {variable} goes through a pooler, where LISTEN does not work", fix)]
    channel = f"duly_doctor_{uuid.uuid4().hex}"
    limit = context.limits.listen_seconds
    with (
        open_connection(address) as listener,
        disconnect_after(listener, limit + context.limits.query_seconds + GRACE_SECONDS),
    ):
        listen(listener, channel)
        began = time.monotonic()
        notify(context, channel)
        if any(True for _ in listener.notifies(timeout=limit, stop_after=1)):
            return [ok(f"NOTIFY received after {(time.monotonic() - began) * 1000:.0f} ms")]
    polling = f"workers only poll, every {context.settings.poll_seconds:g} s"
    return [warn(f"no NOTIFY received on {variable} within {limit:g} s: {polling}", fix)]


def listen(connection: Connection, channel: str) -> None:
    """LISTEN on a channel."""
    connection.execute(SQL.using(channel=channel).listen)


def notify(context: CheckContext, channel: str) -> None:
    """NOTIFY a channel on the connection of the workers."""
    context.query(SQL.notify, channel=channel)
