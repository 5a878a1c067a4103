"""Run one statement per function."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from duly.accounts.model import ApiKey, Org, QuietHours, User, WebhookAddress, hash_secret, is_matching_secret
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


async def create_user(
    connection: Connection, uid: str, telegram_id: int | None, zone: str, language: str, currency: str
) -> User | None:
    """Create a user; None when the uid exists."""
    row = await find_row(
        connection,
        SQL.create_user,
        uid=uid,
        telegram_id=telegram_id,
        zone=zone,
        language=language,
        currency=currency,
    )
    return User(**row) if row else None


async def find_user(connection: Connection, uid: str) -> User | None:
    """Return the user of this uid."""
    row = await find_row(connection, SQL.find_user, uid=uid)
    return User(**row) if row else None


async def change_user(
    connection: Connection,
    uid: str,
    telegram_id: int | None,
    zone: str | None,
    language: str | None,
    currency: str | None,
) -> User | None:
    """Change what is not None; None when the uid is unknown."""
    row = await find_row(
        connection,
        SQL.change_user,
        uid=uid,
        telegram_id=telegram_id,
        zone=zone,
        language=language,
        currency=currency,
    )
    return User(**row) if row else None


async def find_user_by_telegram(connection: Connection, telegram_id: int) -> User | None:
    """Return the user of this Telegram id."""
    row = await find_row(connection, SQL.find_user_by_telegram, telegram_id=telegram_id)
    return User(**row) if row else None


async def create_telegram_user(connection: Connection, telegram_id: int, language: str) -> bool:
    """Create a user for a Telegram id; False when it has one."""
    return await get_value(connection, SQL.create_telegram_user, telegram_id=telegram_id, language=language)


async def link_telegram(connection: Connection, user_id: int, telegram_id: int) -> bool:
    """Link a Telegram id to a user; False when the user has another one or does not exist."""
    return await get_value(connection, SQL.link_telegram, user_id=user_id, telegram_id=telegram_id)


async def unlink_telegram(connection: Connection, uid: str) -> User | None:
    """Remove the Telegram id of a user; None when the uid is unknown."""
    row = await find_row(connection, SQL.unlink_telegram, uid=uid)
    return User(**row) if row else None


async def list_users(connection: Connection, after: int = 0, limit: int = 1000) -> Sequence[User]:
    """Return a page of users."""
    return [User(**row) for row in await get_rows(connection, SQL.list_users, after_id=after, limit=limit)]


async def create_calendar(connection: Connection, user_id: int, token: str) -> None:
    """Store the hash of a calendar token in place of the previous one."""
    await execute(connection, SQL.create_calendar, user_id=user_id, token_sha256=hash_secret(token))


async def revoke_calendar(connection: Connection, user_id: int) -> bool:
    """Delete the calendar token of a user; return whether there was one."""
    return await execute(connection, SQL.revoke_calendar, user_id=user_id) > 0


async def find_calendar(connection: Connection, token: str) -> User | None:
    """Return the owner of the calendar that a token opens."""
    row = await find_row(connection, SQL.find_calendar, token_sha256=hash_secret(token))
    return User(**row) if row else None


async def create_key(
    connection: Connection,
    name: str,
    prefix: str,
    secret: str,
    scopes: Sequence[str],
    org_id: UUID | None,
    user_id: int | None,
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
        user_id=user_id,
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
    connection: Connection, prefix: str | None = None, org_id: UUID | None = None, user_id: int | None = None
) -> Sequence[ApiKey]:
    """Revoke the keys that are not revoked yet; return the keys that this call revoked."""
    rows = await get_rows(connection, SQL.revoke_keys, prefix=prefix, org_id=org_id, user_id=user_id)
    return [ApiKey(**row) for row in rows]


async def find_key(connection: Connection, prefix: str) -> ApiKey | None:
    """Return a key by its prefix, revoked or not."""
    row = await find_row(connection, SQL.find_key, prefix=prefix)
    return ApiKey(**row) if row else None


async def has_keys(connection: Connection) -> bool:
    """Return whether a key was ever created, revoked ones included."""
    return await get_value(connection, SQL.has_keys)


async def set_quiet_hours(connection: Connection, uid: str, quiet_hours: QuietHours | None) -> User | None:
    """Set or remove the quiet hours of a user; None when the uid is unknown."""
    row = await find_row(
        connection,
        SQL.set_quiet_hours,
        uid=uid,
        start=quiet_hours.start if quiet_hours else None,
        end=quiet_hours.end if quiet_hours else None,
    )
    return User(**row) if row else None


async def put_webhook(connection: Connection, user_id: int, webhook: WebhookAddress) -> None:
    """Set where messages to a user are posted."""
    await execute(connection, SQL.put_webhook, user_id=user_id, url=webhook.url, secret=webhook.secret)


async def drop_webhook(connection: Connection, user_id: int) -> None:
    """Remove the webhook of a user."""
    await execute(connection, SQL.drop_webhook, user_id=user_id)


async def list_webhooks(connection: Connection, user_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the webhook URLs of these users, for those who have one."""
    rows = await get_rows(connection, SQL.list_webhooks, user_ids=list(user_ids))
    return {row["user_id"]: row["url"] for row in rows}


async def put_apprise(connection: Connection, user_id: int, url: str) -> None:
    """Set the Apprise address of a user."""
    await execute(connection, SQL.put_apprise, user_id=user_id, url=url)


async def drop_apprise(connection: Connection, user_id: int) -> None:
    """Remove the Apprise address of a user."""
    await execute(connection, SQL.drop_apprise, user_id=user_id)


async def list_apprise_services(connection: Connection, user_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the Apprise services of these users, for those who have an address."""
    rows = await get_rows(connection, SQL.list_apprise_services, user_ids=list(user_ids))
    return {row["user_id"]: row["service"] for row in rows}
