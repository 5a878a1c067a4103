"""The verbs that doors call: make orgs, people, keys and calendars, list them, revoke them, and say whose they are."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from psycopg import errors as database_errors

from duly.accounts import repository
from duly.accounts.model import (
    SECRET_BYTES,
    ApiKey,
    NewKey,
    Org,
    Quiet,
    User,
    Webhook,
    checked_scopes,
    new_secret,
    prefix_of,
)
from duly.accounts.signed_links import rotate_link_keys
from duly.db.idempotency import create_once
from duly.db.pool import Pool
from duly.db.rows import Connection
from duly.errors import Conflict, InvalidArgument, NotFound
from duly.outcomes import Created, Creation, Existing

__all__ = [
    "change_user",
    "create_calendar",
    "create_key",
    "create_org",
    "create_user",
    "find_by_telegram",
    "find_calendar",
    "find_person",
    "has_keys",
    "identify",
    "link_telegram",
    "list_keys",
    "list_orgs",
    "list_services",
    "list_users",
    "list_webhooks",
    "meet_telegram",
    "revoke_calendar",
    "revoke_key",
    "revoke_keys_of_org",
    "revoke_keys_of_user",
    "rotate_links",
    "set_apprise",
    "set_quiet",
    "set_webhook",
    "unlink_telegram",
]

P = TypeVar("P")
T = TypeVar("T")
RULES = {
    "ck_orgs__name": "an org's name has 1 to 200 characters, without control characters and no blanks at its ends",
    "ck_users__uid": "a uid has 1 to 128 characters of A-Z a-z 0-9 . _ : @ - and begins with a letter or digit",
    "ck_users__zone": "a zone is an IANA name such as Europe/Stockholm",
    "ck_users__language": "a language is a code such as en, sv or zh",
    "ck_users__currency": "a currency is a code such as EUR or SEK",
    "ck_api_keys__name": "a key's name has 1 to 200 characters, without control characters and no blanks at its ends",
    "ck_api_keys__expires_at": "a key must live for some time: give more than 0 days",
}


async def create_org(pool: Pool, name: str) -> Creation[Org]:
    """Make an org, or find the one that has this name."""
    async with pool.transaction() as connection, rules():
        return await create_once(
            insert=lambda: repository.create_org(connection, name),
            find=lambda: repository.find_org(connection, name),
            is_same=lambda _: True,
            refusal="",
        )


async def list_orgs(pool: Pool) -> Sequence[Org]:
    """Every org, oldest first."""
    async with pool.transaction() as connection:
        return await every(
            lambda place: repository.list_orgs(connection, place),
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
    """Make a person, or find the same one; a uid that stands for another description is refused."""
    wanted = (telegram_id, zone, language, currency)
    async with pool.transaction() as connection, rules():
        return await create_once(
            insert=lambda: repository.create_user(connection, uid, *wanted),
            find=lambda: repository.find_user(connection, uid),
            is_same=lambda user: (user.telegram_id, user.zone, user.language, user.currency) == wanted,
            refusal=f"the uid {uid} belongs to a person described otherwise; nothing was changed",
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
    """Describe a person anew; what is not given stays."""
    async with pool.transaction() as connection, rules():
        user = await repository.change_user(connection, uid, telegram_id, zone, language, currency)
    if user is None:
        raise nobody(uid)
    return user


async def find_person(pool: Pool, uid: str) -> User | None:
    """The person of this uid."""
    async with pool.statement() as connection:
        return await repository.find_user(connection, uid)


async def find_by_telegram(pool: Pool, telegram_id: int) -> User | None:
    """The person of this Telegram id."""
    async with pool.statement() as connection:
        return await repository.find_by_telegram(connection, telegram_id)


async def meet_telegram(pool: Pool, telegram_id: int, language: str) -> Creation[User]:
    """Who writes to the bot for the first time becomes a person, called after their Telegram id."""
    async with pool.transaction() as connection:
        is_new = await repository.meet(connection, telegram_id, language)
        user = await repository.find_by_telegram(connection, telegram_id)
    if user is None:
        raise Conflict(f"the uid telegram:{telegram_id} belongs to a person with another Telegram id")
    return Created(user) if is_new else Existing(user)


async def link_telegram(pool: Pool, user_id: int, telegram_id: int) -> User:
    """Bind a Telegram id to a person who has none; one Telegram id is one person."""
    async with pool.transaction() as connection, rules():
        if not await repository.link(connection, user_id, telegram_id):
            raise Conflict("the person of this link has another Telegram id, or is gone; a link works once")
        user = await repository.find_by_telegram(connection, telegram_id)
        assert user, "it was just bound"
        return user


async def unlink_telegram(pool: Pool, uid: str) -> User:
    """Take the Telegram id off a person; it can be bound to another then."""
    async with pool.transaction() as connection:
        user = await repository.unlink(connection, uid)
    if user is None:
        raise nobody(uid)
    return user


async def list_users(pool: Pool) -> Sequence[User]:
    """Everybody, in the order they came."""
    async with pool.transaction() as connection:
        return await every(lambda place: repository.list_users(connection, place), 0, lambda user: user.id)


async def create_calendar(pool: Pool, user_id: int) -> str:
    """Give somebody's calendar a new address in the place of the old one; its token is in the answer, nowhere else."""
    token = secrets.token_urlsafe(SECRET_BYTES)
    async with pool.transaction() as connection:
        await repository.create_calendar(connection, user_id, token)
    return token


async def revoke_calendar(pool: Pool, user_id: int) -> bool:
    """Take the address of somebody's calendar back; whether there was one."""
    async with pool.transaction() as connection:
        return await repository.revoke_calendar(connection, user_id)


async def find_calendar(pool: Pool, token: str) -> User | None:
    """Whose calendar a token opens; None when it opens none."""
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
    """Make a key for an org, a person, or a person within an org; the secret is in the answer and nowhere else."""
    wanted = checked_scopes(scopes)
    if org is None and uid is None:
        raise InvalidArgument("a key belongs to an org, a person or both: give --org or --user")
    secret = new_secret()
    prefix = prefix_of(secret)
    assert prefix, "a key we made has a prefix"
    async with pool.transaction() as connection, rules():
        org_id = (await get_org(connection, org)).id if org else None
        user_id = (await get_user(connection, uid)).id if uid else None
        key = await repository.create_key(connection, name, prefix, secret, wanted, org_id, user_id, lifetime_seconds)
        return NewKey(key, secret)


async def list_keys(pool: Pool) -> Sequence[ApiKey]:
    """Every key, oldest first, without their secrets."""
    async with pool.transaction() as connection:
        return await every(
            lambda place: repository.list_keys(connection, place),
            repository.START,
            lambda key: (key.created_at, key.id),
        )


async def revoke_key(pool: Pool, prefix: str) -> ApiKey:
    """Revoke one key; doing it twice is doing it once."""
    async with pool.transaction() as connection:
        await repository.revoke_keys(connection, prefix=prefix)
        key = await repository.find_key(connection, prefix)
    if key is None:
        raise NotFound(f"there is no key with the prefix {prefix}; see: duly keys list")
    return key


async def revoke_keys_of_org(pool: Pool, name: str) -> Sequence[ApiKey]:
    """Revoke every key of an org; returns those that were still alive."""
    async with pool.transaction() as connection:
        return await repository.revoke_keys(connection, org_id=(await get_org(connection, name)).id)


async def revoke_keys_of_user(pool: Pool, uid: str) -> Sequence[ApiKey]:
    """Revoke every key of a person; returns those that were still alive."""
    async with pool.transaction() as connection:
        return await repository.revoke_keys(connection, user_id=(await get_user(connection, uid)).id)


async def identify(pool: Pool, secret: str) -> ApiKey | None:
    """Whose key is this? None for anything but a key that is right and alive."""
    prefix = prefix_of(secret)
    if prefix is None:
        return None
    async with pool.statement() as connection:
        return await repository.find_live_key(connection, prefix, secret)


async def has_keys(pool: Pool) -> bool:
    """Was a key ever made? Revoking the last one does not undo that."""
    async with pool.transaction() as connection:
        return await repository.has_keys(connection)


async def every(page: Callable[[P], Awaitable[Sequence[T]]], start: P, place_of: Callable[[T], P]) -> Sequence[T]:
    """A whole list, read a page at a time: each begins behind the last of the one before."""
    found: list[T] = []
    while rows := await page(place_of(found[-1]) if found else start):
        found += rows
    return found


async def get_org(connection: Connection, name: str) -> Org:
    """The org of this name or id, or NotFound."""
    if org := await repository.find_org(connection, name):
        return org
    raise NotFound(f"there is no org '{name}'; make it with: duly orgs create '{name}'")


async def get_user(connection: Connection, uid: str) -> User:
    """The person of this uid, or NotFound."""
    if user := await repository.find_user(connection, uid):
        return user
    raise nobody(uid)


def nobody(uid: str) -> NotFound:
    """The refusal of a uid that is nobody's."""
    return NotFound(f"there is no person with the uid '{uid}'; make it with: duly users create '{uid}'")


@asynccontextmanager
async def rules() -> AsyncGenerator[None, None]:
    """A rule the database enforces becomes an error that states the rule."""
    try:
        yield
    except database_errors.CheckViolation as error:
        rule = RULES.get(error.diag.constraint_name or "")
        raise InvalidArgument(rule or str(error)) from None
    except database_errors.UniqueViolation as error:
        if error.diag.constraint_name == "uq_users__telegram_id":
            raise Conflict("this Telegram id belongs to another person") from None
        raise


async def set_quiet(pool: Pool, uid: str, quiet: Quiet | None) -> User:
    """Give a person hours in which nobody reminds them, or none."""
    async with pool.transaction() as connection:
        user = await repository.set_quiet(connection, uid, quiet)
    if user is None:
        raise nobody(uid)
    return user


async def set_webhook(pool: Pool, uid: str, webhook: Webhook | None) -> User:
    """Say where messages to a person go by webhook, or that they go nowhere."""
    async with pool.transaction() as connection:
        user = await get_user(connection, uid)
        if webhook:
            await repository.put_webhook(connection, user.id, webhook)
        else:
            await repository.drop_webhook(connection, user.id)
        return user


async def list_webhooks(pool: Pool, user_ids: Sequence[int]) -> Mapping[int, str]:
    """The addresses of those of these people who have one, without the secrets."""
    async with pool.transaction() as connection:
        return await repository.list_webhooks(connection, user_ids)


async def set_apprise(pool: Pool, uid: str, address: str | None) -> User:
    """Say where messages to a person go by apprise, or that they go nowhere."""
    async with pool.transaction() as connection:
        user = await get_user(connection, uid)
        if address:
            await repository.put_apprise(connection, user.id, address)
        else:
            await repository.drop_apprise(connection, user.id)
        return user


async def list_services(pool: Pool, user_ids: Sequence[int]) -> Mapping[int, str]:
    """The services of those of these people who have an address for apprise, without what opens them."""
    async with pool.transaction() as connection:
        return await repository.list_services(connection, user_ids)


async def rotate_links(pool: Pool, *, at_once: bool) -> int:
    """Have a new key sign the links in messages; how many older ones are forgotten, with every link they signed."""
    async with pool.transaction() as connection:
        return await rotate_link_keys(connection, at_once=at_once)
