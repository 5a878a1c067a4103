"""One small function per statement: connection in, value out."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from duly.db.queries import load_queries
from duly.db.rows import find_row, get_row, get_rows, get_value
from duly.people.model import ApiKey, Org, User, matches, sha256_of

__all__ = [
    "change_user",
    "create_key",
    "create_org",
    "create_user",
    "find_key",
    "find_live_key",
    "find_org",
    "find_user",
    "has_keys",
    "list_keys",
    "list_orgs",
    "list_users",
    "revoke_keys",
]

SQL = load_queries(__file__)
START = (datetime.min.replace(tzinfo=UTC), UUID(int=0))
Connection = AsyncConnection[Any]


async def create_org(connection: Connection, name: str) -> Org | None:
    """Make an org; None when there is one of this name."""
    row = await find_row(connection, SQL.create_org, name=name)
    return Org(**row) if row else None


async def find_org(connection: Connection, name: str) -> Org | None:
    """The org of this name or id."""
    row = await find_row(connection, SQL.find_org, name=name)
    return Org(**row) if row else None


async def list_orgs(connection: Connection, after: tuple[datetime, UUID] = START, most: int = 1000) -> Sequence[Org]:
    """A page of orgs."""
    rows = await get_rows(connection, SQL.list_orgs, after_at=after[0], after_id=after[1], most=most)
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


async def list_users(connection: Connection, after: int = 0, most: int = 1000) -> Sequence[User]:
    """A page of people."""
    return [User(**row) for row in await get_rows(connection, SQL.list_users, after_id=after, most=most)]


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


async def list_keys(connection: Connection, after: tuple[datetime, UUID] = START, most: int = 1000) -> Sequence[ApiKey]:
    """A page of keys, without their secrets."""
    rows = await get_rows(connection, SQL.list_keys, after_at=after[0], after_id=after[1], most=most)
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
