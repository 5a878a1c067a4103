"""One small function per statement: connection in, value out."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from duly.accounts.model import ApiKey, Org, Quiet, User, Webhook, matches, sha256_of
from duly.db.queries import load_queries
from duly.db.rows import Connection, change, find_row, get_row, get_rows, get_value

__all__ = [
    "change_user",
    "create_calendar",
    "create_key",
    "create_org",
    "create_user",
    "drop_apprise",
    "drop_webhook",
    "find_by_telegram",
    "find_calendar",
    "find_key",
    "find_live_key",
    "find_org",
    "find_user",
    "has_keys",
    "link",
    "list_keys",
    "list_orgs",
    "list_services",
    "list_users",
    "list_webhooks",
    "meet",
    "put_apprise",
    "put_webhook",
    "revoke_calendar",
    "revoke_keys",
    "set_quiet",
    "unlink",
]

SQL = load_queries(__file__)
START = (datetime.min.replace(tzinfo=UTC), UUID(int=0))


async def create_org(connection: Connection, name: str) -> Org | None:
    """Make an org; None when there is one of this name."""
    row = await find_row(connection, SQL.create_org, name=name)
    return Org(**row) if row else None


async def find_org(connection: Connection, name: str) -> Org | None:
    """The org of this name or id."""
    row = await find_row(connection, SQL.find_org, name=name)
    return Org(**row) if row else None


async def list_orgs(connection: Connection, after: tuple[datetime, UUID] = START, limit: int = 1000) -> Sequence[Org]:
    """A page of orgs."""
    rows = await get_rows(connection, SQL.list_orgs, after_at=after[0], after_id=after[1], limit=limit)
    return [Org(**row) for row in rows]


async def create_user(
    connection: Connection, uid: str, telegram_id: int | None, zone: str, language: str, currency: str
) -> User | None:
    """Make a person; None when there is one of this uid."""
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
    """The person of this uid."""
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
    """Describe a person anew, as far as anything is given; None when there is nobody of this uid."""
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


async def find_by_telegram(connection: Connection, telegram_id: int) -> User | None:
    """The person of this Telegram id."""
    row = await find_row(connection, SQL.find_by_telegram, telegram_id=telegram_id)
    return User(**row) if row else None


async def meet(connection: Connection, telegram_id: int, language: str) -> bool:
    """Make somebody who writes to the bot a person; False when they are one."""
    return await get_value(connection, SQL.meet, telegram_id=telegram_id, language=language)


async def link(connection: Connection, user_id: int, telegram_id: int) -> bool:
    """Bind a Telegram id to a person; False when they have another, or are not there."""
    return await get_value(connection, SQL.link, user_id=user_id, telegram_id=telegram_id)


async def unlink(connection: Connection, uid: str) -> User | None:
    """Take the Telegram id off a person; None when there is nobody of this uid."""
    row = await find_row(connection, SQL.unlink, uid=uid)
    return User(**row) if row else None


async def list_users(connection: Connection, after: int = 0, limit: int = 1000) -> Sequence[User]:
    """A page of people."""
    return [User(**row) for row in await get_rows(connection, SQL.list_users, after_id=after, limit=limit)]


async def create_calendar(connection: Connection, user_id: int, token: str) -> None:
    """Keep the hash of somebody's address, in the place of the one before."""
    await change(connection, SQL.create_calendar, user_id=user_id, token_sha256=sha256_of(token))


async def revoke_calendar(connection: Connection, user_id: int) -> bool:
    """Forget somebody's address; whether there was one."""
    return await change(connection, SQL.revoke_calendar, user_id=user_id) > 0


async def find_calendar(connection: Connection, token: str) -> User | None:
    """Whose calendar this is."""
    row = await find_row(connection, SQL.find_calendar, token_sha256=sha256_of(token))
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
    """Keep a key's hash."""
    row = await get_row(
        connection,
        SQL.create_key,
        name=name,
        prefix=prefix,
        secret_sha256=sha256_of(secret),
        scopes=list(scopes),
        org_id=org_id,
        user_id=user_id,
        lifetime_seconds=lifetime_seconds,
    )
    return ApiKey(**row)


async def list_keys(
    connection: Connection, after: tuple[datetime, UUID] = START, limit: int = 1000
) -> Sequence[ApiKey]:
    """A page of keys, without their secrets."""
    rows = await get_rows(connection, SQL.list_keys, after_at=after[0], after_id=after[1], limit=limit)
    return [ApiKey(**row) for row in rows]


async def find_live_key(connection: Connection, prefix: str, secret: str) -> ApiKey | None:
    """The key behind a secret, if it is the right secret and still opens doors."""
    row = await find_row(connection, SQL.find_live_key, prefix=prefix)
    if not row or not matches(secret, row["secret_sha256"]):
        return None
    return ApiKey(**{name: value for name, value in row.items() if name != "secret_sha256"})


async def revoke_keys(
    connection: Connection, prefix: str | None = None, org_id: UUID | None = None, user_id: int | None = None
) -> Sequence[ApiKey]:
    """Revoke what is not revoked yet; returns what this call revoked."""
    rows = await get_rows(connection, SQL.revoke_keys, prefix=prefix, org_id=org_id, user_id=user_id)
    return [ApiKey(**row) for row in rows]


async def find_key(connection: Connection, prefix: str) -> ApiKey | None:
    """A key by its prefix, revoked or not."""
    row = await find_row(connection, SQL.find_key, prefix=prefix)
    return ApiKey(**row) if row else None


async def has_keys(connection: Connection) -> bool:
    """Was a key ever made, whatever became of it?"""
    return await get_value(connection, SQL.has_keys)


async def set_quiet(connection: Connection, uid: str, quiet: Quiet | None) -> User | None:
    """Give a person quiet hours, or take them away; None when there is nobody of this uid."""
    row = await find_row(
        connection,
        SQL.set_quiet,
        uid=uid,
        begins=quiet.begins if quiet else None,
        ends=quiet.ends if quiet else None,
    )
    return User(**row) if row else None


async def put_webhook(connection: Connection, user_id: int, webhook: Webhook) -> None:
    """Say where messages to a person go."""
    await change(connection, SQL.put_webhook, user_id=user_id, url=webhook.url, secret=webhook.secret)


async def drop_webhook(connection: Connection, user_id: int) -> None:
    """Have messages to a person go nowhere."""
    await change(connection, SQL.drop_webhook, user_id=user_id)


async def list_webhooks(connection: Connection, user_ids: Sequence[int]) -> Mapping[int, str]:
    """The addresses of those of these people who have one."""
    rows = await get_rows(connection, SQL.list_webhooks, user_ids=list(user_ids))
    return {row["user_id"]: row["url"] for row in rows}


async def put_apprise(connection: Connection, user_id: int, url: str) -> None:
    """Say where messages to a person go by apprise."""
    await change(connection, SQL.put_apprise, user_id=user_id, url=url)


async def drop_apprise(connection: Connection, user_id: int) -> None:
    """Have messages to a person go nowhere by apprise."""
    await change(connection, SQL.drop_apprise, user_id=user_id)


async def list_services(connection: Connection, user_ids: Sequence[int]) -> Mapping[int, str]:
    """The services of those of these people who have an address for apprise."""
    rows = await get_rows(connection, SQL.list_services, user_ids=list(user_ids))
    return {row["user_id"]: row["service"] for row in rows}
