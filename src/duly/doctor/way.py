"""The way there: is a pooler on it, is there a way past it to the same database, and does a wake-up arrive?"""

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress

from psycopg import errors

from duly.db.location import place_of
from duly.db.pool import connect, is_behind_pooler
from duly.db.queries import load_queries
from duly.db.rows import Row
from duly.doctor.case import Case
from duly.doctor.connection import APPLICATION_NAME, GRACE_SECONDS, Connection, cut_after, open_connection
from duly.doctor.content import list_revisions
from duly.doctor.finding import Note, bad, ok, warn
from duly.doctor.words import reason_of
from duly.errors import Unavailable

__all__ = ["check_listen", "check_pooler", "leads_through_pooler"]

SQL = load_queries(__file__, "way.sql")


def leads_through_pooler(case: Case, address: str) -> bool:
    """Is there a pooler on the way?"""

    async def look() -> bool:
        async with asyncio.timeout(case.limits.question_seconds + GRACE_SECONDS):
            async with await connect(address, name=APPLICATION_NAME) as connection:
                return await is_behind_pooler(connection)

    return asyncio.run(look())


def check_pooler(case: Case) -> Sequence[Note]:
    """Does the direct way pass the pooler, and lead to the same database?"""
    pooled = leads_through_pooler(case, case.address)
    if not case.settings.database_direct_url:
        if not pooled:
            return [ok("none on the way")]
        deaf = f"LISTEN is deaf, so wake-ups fall back to polling every {case.settings.poll_seconds:g} s"
        found = f"DATABASE_URL leads through a pooler: {deaf}, and migrations need a direct address"
        return [warn(found, "set DATABASE_DIRECT_URL to the server itself")]
    direct = case.settings.database_direct_url.get_secret_value()
    try:
        notes = [*note_pooled(case, direct), *note_other_database(case, direct)]
    except (Unavailable, TimeoutError) as error:
        found = f"DATABASE_DIRECT_URL, {place_of(direct)}, does not answer: {reason_of(error)}"
        return [bad(found, "set DATABASE_DIRECT_URL to the server itself")]
    way = "DATABASE_URL leads through a pooler" if pooled else "no pooler on the way"
    return notes or [ok(f"{way}; DATABASE_DIRECT_URL leads to the same database without one")]


def note_pooled(case: Case, direct: str) -> Sequence[Note]:
    """The direct address is no such thing."""
    if not leads_through_pooler(case, direct):
        return []
    found = f"DATABASE_DIRECT_URL, {place_of(direct)}, leads through a pooler itself"
    return [bad(found, "set DATABASE_DIRECT_URL to the host and port of the server itself")]


def note_other_database(case: Case, direct: str) -> Sequence[Note]:
    """The direct address is somebody else's."""
    with open_connection(direct) as connection:
        there = identity_of(Case(connection, case.settings, case.limits))
    here = identity_of(case)
    differences = [what for what in here if here[what] and there[what] and here[what] != there[what]]
    if not differences:
        return []
    what = ", ".join(f"{what} {there[what]} instead of {here[what]}" for what in differences)
    found = f"DATABASE_DIRECT_URL leads to another database: {what}"
    return [bad(found, "set DATABASE_URL and DATABASE_DIRECT_URL to one database")]


def identity_of(case: Case) -> Mapping[str, str | None]:
    """What tells a database from others; what this login may not see is None."""
    seen = identify_database(case)
    if system := find_system_identifier(case):
        return {**seen, "system": system, "revision": None}
    revision = None
    with suppress(errors.InsufficientPrivilege, errors.UndefinedTable):
        revision = ", ".join(list_revisions(case))
    return {**seen, "system": None, "revision": revision}


def identify_database(case: Case) -> Row:
    """Its name and number."""
    return case.get(SQL.identify_database)


def find_system_identifier(case: Case) -> str | None:
    """The number of the server; None where this login may not see it."""
    with suppress(errors.InsufficientPrivilege):
        return case.get(SQL.find_system_identifier)["system"]
    return None


def check_listen(case: Case) -> Sequence[Note]:
    """Does a wake-up arrive? Sent by the way the work goes, heard by the direct one."""
    direct = case.settings.database_direct_url
    address = direct.get_secret_value() if direct else case.address
    variable = "DATABASE_DIRECT_URL" if direct else "DATABASE_URL"
    fix = "set DATABASE_DIRECT_URL to the server itself"
    if leads_through_pooler(case, address):
        return [warn(f"not tried: {variable} leads through a pooler, where LISTEN is deaf", fix)]
    channel = f"duly_doctor_{uuid.uuid4().hex}"
    limit = case.limits.listen_seconds
    with open_connection(address) as ear, cut_after(ear, limit + case.limits.question_seconds + GRACE_SECONDS):
        listen(ear, channel)
        began = time.monotonic()
        notify(case, channel)
        if any(True for _ in ear.notifies(timeout=limit, stop_after=1)):
            return [ok(f"heard after {(time.monotonic() - began) * 1000:.0f} ms")]
    polling = f"workers find work by polling every {case.settings.poll_seconds:g} s only"
    return [warn(f"nothing heard on {variable} within {limit:g} s: {polling}", fix)]


def listen(connection: Connection, channel: str) -> None:
    """Hear what is sent on a channel."""
    connection.execute(SQL.using(channel=channel).listen)


def notify(case: Case, channel: str) -> None:
    """Send one wake-up, by the way the work goes."""
    case.ask(SQL.notify, channel=channel)
