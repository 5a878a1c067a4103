"""Create, list and revoke orgs, users, API keys and calendars. Each function is one short transaction."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from duly.accounts import repository
from duly.accounts.model import (
    SECRET_BYTES,
    ApiKey,
    NewKey,
    Org,
    QuietHours,
    User,
    WebhookAddress,
    new_secret,
    parse_key_prefix,
    validate_scopes,
)
from duly.accounts.signed_links import rotate_link_keys
from duly.db.error_table import translate_errors
from duly.db.idempotency import create_once
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import Conflict, InvalidArgument, NotFound
from duly.outcomes import Created, Creation, Existing

P = TypeVar("P")
T = TypeVar("T")


async def create_org(pool: Pool, name: str) -> Creation[Org]:
    """Create an org, or return the one that has this name."""
    with translate_errors():
        async with pool.transaction() as connection:
            return await create_once(
                insert=lambda: repository.create_org(connection, name),
                find=lambda: repository.find_org(connection, name),
                is_same=lambda _: True,
                refusal="",
            )


async def list_orgs(pool: Pool) -> Sequence[Org]:
    """Return every org, the oldest first."""
    async with pool.transaction() as connection:
        return await fetch_all(
            lambda cursor: repository.list_orgs(connection, cursor),
            repository.START,
            lambda org: (org.created_at, org.id),
        )


async def create_user(
    pool: Pool,
    uid: str,
    *,
    telegram_id: int | None = None,
    zone: str = "UTC",
    language: str = "en",
    currency: str = "EUR",
) -> Creation[User]:
    """Create a user, or return the same one; Conflict when the uid exists with other values."""
    wanted = (telegram_id, zone, language, currency)
    with translate_errors():
        async with pool.transaction() as connection:
            return await create_once(
                insert=lambda: repository.create_user(connection, uid, *wanted),
                find=lambda: repository.find_user(connection, uid),
                is_same=lambda user: (user.telegram_id, user.zone, user.language, user.currency) == wanted,
                refusal=f"the uid {uid} belongs to a user with other values; nothing was changed",
            )


async def change_user(
    pool: Pool,
    uid: str,
    *,
    telegram_id: int | None = None,
    zone: str | None = None,
    language: str | None = None,
    currency: str | None = None,
) -> User:
    """Change what is given; NotFound when the uid is unknown."""
    with translate_errors():
        async with pool.transaction() as connection:
            user = await repository.change_user(connection, uid, telegram_id, zone, language, currency)
    if user is None:
        raise user_not_found(uid)
    return user


async def find_user(pool: Pool, uid: str) -> User | None:
    """Return the user of this uid."""
    async with pool.statement() as connection:
        return await repository.find_user(connection, uid)


async def find_user_by_telegram(pool: Pool, telegram_id: int) -> User | None:
    """Return the user of this Telegram id."""
    async with pool.statement() as connection:
        return await repository.find_user_by_telegram(connection, telegram_id)


async def register_telegram_user(pool: Pool, telegram_id: int, language: str) -> Creation[User]:
    """Create a user named after a Telegram id, or return the one that has it."""
    async with pool.transaction() as connection:
        is_new = await repository.create_telegram_user(connection, telegram_id, language)
        user = await repository.find_user_by_telegram(connection, telegram_id)
    if user is None:
        raise Conflict(f"the uid telegram:{telegram_id} belongs to a user with another Telegram id")
    return Created(user) if is_new else Existing(user)


async def link_telegram(pool: Pool, user_id: int, telegram_id: int) -> User:
    """Link a Telegram id to a user who has none; Conflict when either has another."""
    with translate_errors():
        async with pool.transaction() as connection:
            if not await repository.link_telegram(connection, user_id, telegram_id):
                raise Conflict("the user of this link has another Telegram id or was deleted; a link works once")
            user = await repository.find_user_by_telegram(connection, telegram_id)
            assert user, "it was just linked"
            return user


async def unlink_telegram(pool: Pool, uid: str) -> User:
    """Remove the Telegram id of a user; it can then be linked to another."""
    async with pool.transaction() as connection:
        user = await repository.unlink_telegram(connection, uid)
    if user is None:
        raise user_not_found(uid)
    return user


async def list_users(pool: Pool) -> Sequence[User]:
    """Return every user, in the order of their ids."""
    async with pool.transaction() as connection:
        return await fetch_all(lambda cursor: repository.list_users(connection, cursor), 0, lambda user: user.id)


async def create_calendar(pool: Pool, user_id: int) -> str:
    """Replace the calendar token of a user; the new one is returned and only its hash stored."""
    token = secrets.token_urlsafe(SECRET_BYTES)
    async with pool.transaction() as connection:
        await repository.create_calendar(connection, user_id, token)
    return token


async def revoke_calendar(pool: Pool, user_id: int) -> bool:
    """Delete the calendar token of a user; return whether there was one."""
    async with pool.transaction() as connection:
        return await repository.revoke_calendar(connection, user_id)


async def find_calendar(pool: Pool, token: str) -> User | None:
    """Return the owner of the calendar that a token opens; None when it opens none."""
    async with pool.statement() as connection:
        return await repository.find_calendar(connection, token)


async def create_key(
    pool: Pool,
    name: str,
    scopes: Iterable[str],
    *,
    org: str | None = None,
    uid: str | None = None,
    lifetime_seconds: float | None = None,
) -> NewKey:
    """Create a key for an org, a user, or a user within an org; its secret is returned and only its hash stored."""
    wanted = validate_scopes(scopes)
    if org is None and uid is None:
        raise InvalidArgument("a key belongs to an org, a user or both: give --org or --user")
    secret = new_secret()
    prefix = parse_key_prefix(secret)
    assert prefix, "a generated key has a prefix"
    with translate_errors():
        async with pool.transaction() as connection:
            org_id = (await get_org(connection, org)).id if org else None
            user_id = (await get_user(connection, uid)).id if uid else None
            key = await repository.create_key(
                connection, name, prefix, secret, wanted, org_id, user_id, lifetime_seconds
            )
            return NewKey(key, secret)


async def list_keys(pool: Pool) -> Sequence[ApiKey]:
    """Return every key, the oldest first, without their secrets."""
    async with pool.transaction() as connection:
        return await fetch_all(
            lambda cursor: repository.list_keys(connection, cursor),
            repository.START,
            lambda key: (key.created_at, key.id),
        )


async def revoke_key(pool: Pool, prefix: str) -> ApiKey:
    """Revoke one key; repeatable."""
    async with pool.transaction() as connection:
        await repository.revoke_keys(connection, prefix=prefix)
        key = await repository.find_key(connection, prefix)
    if key is None:
        raise NotFound(f"there is no key with the prefix {prefix}; see: duly keys list")
    return key


async def revoke_org_keys(pool: Pool, name: str) -> Sequence[ApiKey]:
    """Revoke every key of an org; return those that were not revoked before."""
    async with pool.transaction() as connection:
        return await repository.revoke_keys(connection, org_id=(await get_org(connection, name)).id)


async def revoke_user_keys(pool: Pool, uid: str) -> Sequence[ApiKey]:
    """Revoke every key of a user; return those that were not revoked before."""
    async with pool.transaction() as connection:
        return await repository.revoke_keys(connection, user_id=(await get_user(connection, uid)).id)


async def find_key_by_secret(pool: Pool, secret: str) -> ApiKey | None:
    """Return the key of a secret; None when it is unknown, revoked or expired."""
    prefix = parse_key_prefix(secret)
    if prefix is None:
        return None
    async with pool.statement() as connection:
        return await repository.find_live_key(connection, prefix, secret)


async def has_keys(pool: Pool) -> bool:
    """Return whether a key was ever created, revoked ones included."""
    async with pool.transaction() as connection:
        return await repository.has_keys(connection)


async def fetch_all(
    fetch_page: Callable[[P], Awaitable[Sequence[T]]], start: P, cursor_from: Callable[[T], P]
) -> Sequence[T]:
    """Fetch every page of a list; each page starts after the last item of the previous one."""
    found: list[T] = []
    while rows := await fetch_page(cursor_from(found[-1]) if found else start):
        found += rows
    return found


async def get_org(connection: Connection, name: str) -> Org:
    """Return the org of this name or id; NotFound when there is none."""
    if org := await repository.find_org(connection, name):
        return org
    raise NotFound(f"there is no org '{name}'; create it with: duly orgs create '{name}'")


async def get_user(connection: Connection, uid: str) -> User:
    """Return the user of this uid; NotFound when there is none."""
    if user := await repository.find_user(connection, uid):
        return user
    raise user_not_found(uid)


def user_not_found(uid: str) -> NotFound:
    """Return the error for an unknown uid."""
    return NotFound(f"there is no user with the uid '{uid}'; create one with: duly users create '{uid}'")


async def set_quiet_hours(pool: Pool, uid: str, quiet_hours: QuietHours | None) -> User:
    """Set the hours in which a user gets no reminders, or remove them."""
    async with pool.transaction() as connection:
        user = await repository.set_quiet_hours(connection, uid, quiet_hours)
    if user is None:
        raise user_not_found(uid)
    return user


async def set_webhook(pool: Pool, uid: str, webhook: WebhookAddress | None) -> User:
    """Set or remove the webhook of a user."""
    async with pool.transaction() as connection:
        user = await get_user(connection, uid)
        if webhook:
            await repository.put_webhook(connection, user.id, webhook)
        else:
            await repository.drop_webhook(connection, user.id)
        return user


async def list_webhooks(pool: Pool, user_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the webhook URLs of these users, without secrets."""
    async with pool.transaction() as connection:
        return await repository.list_webhooks(connection, user_ids)


async def set_apprise(pool: Pool, uid: str, address: str | None) -> User:
    """Set or remove the Apprise address of a user."""
    async with pool.transaction() as connection:
        user = await get_user(connection, uid)
        if address:
            await repository.put_apprise(connection, user.id, address)
        else:
            await repository.drop_apprise(connection, user.id)
        return user


async def list_apprise_services(pool: Pool, user_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the Apprise services of these users, without credentials."""
    async with pool.transaction() as connection:
        return await repository.list_apprise_services(connection, user_ids)


async def rotate_links(pool: Pool, *, at_once: bool) -> int:
    """Add a key that signs links in messages; return how many older keys were deleted, with every link they signed."""
    async with pool.transaction() as connection:
        return await rotate_link_keys(connection, at_once=at_once)
