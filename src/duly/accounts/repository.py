"""Run one statement per function."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from duly.accounts.model import ApiKey, Org, Person, QuietHours, WebhookAddress, hash_secret, is_matching_secret
from duly.db.queries import load_queries
from duly.db.rows import Connection, execute, find_row, get_row, get_rows, get_value

SQL = load_queries(__file__)
START = (datetime.min.replace(tzinfo=UTC), UUID(int=0))


async def create_org(connection: Connection, name: str) -> Org | None:
    """Create an org; None when the name exists."""
    row = await find_row(connection, SQL.create_org, name=name)
    return Org(**row) if row else None


async def find_org(connection: Connection, name: str) -> Org | None:
    """Return the org of this name or id."""
    row = await find_row(connection, SQL.find_org, name=name)
    return Org(**row) if row else None


async def list_orgs(connection: Connection, after: tuple[datetime, UUID] = START, limit: int = 1000) -> Sequence[Org]:
    """Return a page of orgs."""
    rows = await get_rows(connection, SQL.list_orgs, after_at=after[0], after_id=after[1], limit=limit)
    return [Org(**row) for row in rows]


async def create_person(
    connection: Connection, uid: str, telegram_id: int | None, zone: str, language: str, currency: str
) -> Person | None:
    """Create a person; None when the uid exists."""
    row = await find_row(
        connection,
        SQL.create_person,
        uid=uid,
        telegram_id=telegram_id,
        zone=zone,
        language=language,
        currency=currency,
    )
    return Person(**row) if row else None


async def find_person(connection: Connection, uid: str) -> Person | None:
    """Return the person of this uid."""
    row = await find_row(connection, SQL.find_person, uid=uid)
    return Person(**row) if row else None


async def change_person(
    connection: Connection,
    uid: str,
    telegram_id: int | None,
    zone: str | None,
    language: str | None,
    currency: str | None,
) -> Person | None:
    """Change what is not None; None when the uid is unknown."""
    row = await find_row(
        connection,
        SQL.change_person,
        uid=uid,
        telegram_id=telegram_id,
        zone=zone,
        language=language,
        currency=currency,
    )
    return Person(**row) if row else None


async def find_person_by_telegram(connection: Connection, telegram_id: int) -> Person | None:
    """Return the person of this Telegram id."""
    row = await find_row(connection, SQL.find_person_by_telegram, telegram_id=telegram_id)
    return Person(**row) if row else None


async def create_telegram_person(connection: Connection, telegram_id: int, language: str) -> bool:
    """Create a person for a Telegram id; False when it has one."""
    return await get_value(connection, SQL.create_telegram_person, telegram_id=telegram_id, language=language)


async def link_telegram(connection: Connection, person_id: int, telegram_id: int) -> bool:
    """Link a Telegram id to a person; False when the person has another one or does not exist."""
    return await get_value(connection, SQL.link_telegram, person_id=person_id, telegram_id=telegram_id)


async def unlink_telegram(connection: Connection, uid: str) -> Person | None:
    """Remove the Telegram id of a person; None when the uid is unknown."""
    row = await find_row(connection, SQL.unlink_telegram, uid=uid)
    return Person(**row) if row else None


async def link_user(connection: Connection, uid: str, user_id: int) -> Person | None:
    """Link a person to a row of "user".users; None when the uid is unknown."""
    row = await find_row(connection, SQL.link_user, uid=uid, user_id=user_id)
    return Person(**row) if row else None


async def list_people(connection: Connection, after: int = 0, limit: int = 1000) -> Sequence[Person]:
    """Return a page of people."""
    return [Person(**row) for row in await get_rows(connection, SQL.list_people, after_id=after, limit=limit)]


async def create_calendar(connection: Connection, person_id: int, token: str) -> None:
    """Store the hash of a calendar token in place of the previous one."""
    await execute(connection, SQL.create_calendar, person_id=person_id, token_sha256=hash_secret(token))


async def revoke_calendar(connection: Connection, person_id: int) -> bool:
    """Delete the calendar token of a person; return whether there was one."""
    return await execute(connection, SQL.revoke_calendar, person_id=person_id) > 0


async def find_calendar(connection: Connection, token: str) -> Person | None:
    """Return the owner of the calendar that a token opens."""
    row = await find_row(connection, SQL.find_calendar, token_sha256=hash_secret(token))
    return Person(**row) if row else None


async def create_key(
    connection: Connection,
    name: str,
    prefix: str,
    secret: str,
    scopes: Sequence[str],
    org_id: UUID | None,
    person_id: int | None,
    lifetime_seconds: float | None,
) -> ApiKey:
    """Store a key with the hash of its secret."""
    row = await get_row(
        connection,
        SQL.create_key,
        name=name,
        prefix=prefix,
        secret_sha256=hash_secret(secret),
        scopes=list(scopes),
        org_id=org_id,
        person_id=person_id,
        lifetime_seconds=lifetime_seconds,
    )
    return ApiKey(**row)


async def list_keys(
    connection: Connection, after: tuple[datetime, UUID] = START, limit: int = 1000
) -> Sequence[ApiKey]:
    """Return a page of keys, without their secrets."""
    rows = await get_rows(connection, SQL.list_keys, after_at=after[0], after_id=after[1], limit=limit)
    return [ApiKey(**row) for row in rows]


async def find_live_key(connection: Connection, prefix: str, secret: str) -> ApiKey | None:
    """Return the key of this prefix when the secret is right and the key neither revoked nor expired."""
    row = await find_row(connection, SQL.find_live_key, prefix=prefix)
    if not row or not is_matching_secret(secret, row["secret_sha256"]):
        return None
    return ApiKey(**{name: value for name, value in row.items() if name != "secret_sha256"})


async def revoke_keys(
    connection: Connection, prefix: str | None = None, org_id: UUID | None = None, person_id: int | None = None
) -> Sequence[ApiKey]:
    """Revoke the keys that are not revoked yet; return the keys that this call revoked."""
    rows = await get_rows(connection, SQL.revoke_keys, prefix=prefix, org_id=org_id, person_id=person_id)
    return [ApiKey(**row) for row in rows]


async def find_key(connection: Connection, prefix: str) -> ApiKey | None:
    """Return a key by its prefix, revoked or not."""
    row = await find_row(connection, SQL.find_key, prefix=prefix)
    return ApiKey(**row) if row else None


async def has_keys(connection: Connection) -> bool:
    """Return whether a key was ever created, revoked ones included."""
    return await get_value(connection, SQL.has_keys)


async def set_quiet_hours(connection: Connection, uid: str, quiet_hours: QuietHours | None) -> Person | None:
    """Set or remove the quiet hours of a person; None when the uid is unknown."""
    row = await find_row(
        connection,
        SQL.set_quiet_hours,
        uid=uid,
        start=quiet_hours.start if quiet_hours else None,
        end=quiet_hours.end if quiet_hours else None,
    )
    return Person(**row) if row else None


async def put_webhook(connection: Connection, person_id: int, webhook: WebhookAddress) -> None:
    """Set where messages to a person are posted."""
    await execute(connection, SQL.put_webhook, person_id=person_id, url=webhook.url, secret=webhook.secret)


async def drop_webhook(connection: Connection, person_id: int) -> None:
    """Remove the webhook of a person."""
    await execute(connection, SQL.drop_webhook, person_id=person_id)


async def list_webhooks(connection: Connection, person_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the webhook URLs of these people, for those who have one."""
    rows = await get_rows(connection, SQL.list_webhooks, person_ids=list(person_ids))
    return {row["person_id"]: row["url"] for row in rows}


async def put_apprise(connection: Connection, person_id: int, url: str) -> None:
    """Set the Apprise address of a person."""
    await execute(connection, SQL.put_apprise, person_id=person_id, url=url)


async def drop_apprise(connection: Connection, person_id: int) -> None:
    """Remove the Apprise address of a person."""
    await execute(connection, SQL.drop_apprise, person_id=person_id)


async def list_apprise_services(connection: Connection, person_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the Apprise services of these people, for those who have an address."""
    rows = await get_rows(connection, SQL.list_apprise_services, person_ids=list(person_ids))
    return {row["person_id"]: row["service"] for row in rows}
