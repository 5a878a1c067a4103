"""Create, list and revoke orgs, people, API keys and calendars. Each function is one short transaction."""

import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from duly.accounts import repository
from duly.accounts.model import (
    SECRET_BYTES,
    ApiKey,
    NewKey,
    Org,
    Person,
    QuietHours,
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


async def create_person(
    pool: Pool,
    uid: str,
    *,
    telegram_id: int | None = None,
    zone: str = "UTC",
    language: str = "en",
    currency: str = "EUR",
) -> Creation[Person]:
    """Create a person, or return the same one; Conflict when the uid exists with other values."""
    wanted = (telegram_id, zone, language, currency)
    with translate_errors():
        async with pool.transaction() as connection:
            return await create_once(
                insert=lambda: repository.create_person(connection, uid, *wanted),
                find=lambda: repository.find_person(connection, uid),
                is_same=lambda person: (person.telegram_id, person.zone, person.language, person.currency) == wanted,
                refusal=f"the uid {uid} belongs to a person with other values; nothing was changed",
            )


async def change_person(
    pool: Pool,
    uid: str,
    *,
    telegram_id: int | None = None,
    zone: str | None = None,
    language: str | None = None,
    currency: str | None = None,
) -> Person:
    """Change what is given; NotFound when the uid is unknown."""
    with translate_errors():
        async with pool.transaction() as connection:
            person = await repository.change_person(connection, uid, telegram_id, zone, language, currency)
    if person is None:
        raise person_not_found(uid)
    return person


async def find_person(pool: Pool, uid: str) -> Person | None:
    """Return the person of this uid; None when there is none, or the text cannot be a uid."""
    if not uid.isascii() or "\0" in uid:
        return None
    async with pool.statement() as connection:
        return await repository.find_person(connection, uid)


async def require_person(pool: Pool, uid: str) -> Person:
    """Return the person of this uid; NotFound when there is none."""
    if person := await find_person(pool, uid):
        return person
    raise person_not_found(uid)


async def find_person_by_telegram(pool: Pool, telegram_id: int) -> Person | None:
    """Return the person of this Telegram id."""
    async with pool.statement() as connection:
        return await repository.find_person_by_telegram(connection, telegram_id)


async def register_telegram_person(pool: Pool, telegram_id: int, language: str) -> Creation[Person]:
    """Create a person named after a Telegram id, or return the one that has it."""
    async with pool.transaction() as connection:
        is_new = await repository.create_telegram_person(connection, telegram_id, language)
        person = await repository.find_person_by_telegram(connection, telegram_id)
    if person is None:
        raise Conflict(f"the uid telegram:{telegram_id} belongs to a person with another Telegram id")
    return Created(person) if is_new else Existing(person)


async def link_telegram(pool: Pool, person_id: int, telegram_id: int) -> Person:
    """Link a Telegram id to a person who has none; Conflict when either has another."""
    with translate_errors():
        async with pool.transaction() as connection:
            if not await repository.link_telegram(connection, person_id, telegram_id):
                raise Conflict("the person of this link has another Telegram id or was deleted; a link works once")
            person = await repository.find_person_by_telegram(connection, telegram_id)
            assert person, "it was just linked"
            return person


async def unlink_telegram(pool: Pool, uid: str) -> Person:
    """Remove the Telegram id of a person; it can then be linked to another."""
    async with pool.transaction() as connection:
        person = await repository.unlink_telegram(connection, uid)
    if person is None:
        raise person_not_found(uid)
    return person


async def link_user(pool: Pool, uid: str, user_id: int) -> Person:
    """Link a person to a row of "user".users; NotFound when there is none, Conflict when it is another person's."""
    with translate_errors():
        async with pool.transaction() as connection:
            person = await repository.link_user(connection, uid, user_id)
    if person is None:
        raise person_not_found(uid)
    return person


async def list_people(pool: Pool) -> Sequence[Person]:
    """Return every person, in the order of their ids."""
    async with pool.transaction() as connection:
        return await fetch_all(lambda cursor: repository.list_people(connection, cursor), 0, lambda person: person.id)


async def create_calendar(pool: Pool, person_id: int) -> str:
    """Replace the calendar token of a person; the new one is returned and only its hash stored."""
    token = secrets.token_urlsafe(SECRET_BYTES)
    async with pool.transaction() as connection:
        await repository.create_calendar(connection, person_id, token)
    return token


async def revoke_calendar(pool: Pool, person_id: int) -> bool:
    """Delete the calendar token of a person; return whether there was one."""
    async with pool.transaction() as connection:
        return await repository.revoke_calendar(connection, person_id)


async def find_calendar(pool: Pool, token: str) -> Person | None:
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
    """Create a key for an org, a person, or a person within an org; its secret is returned and only its hash stored."""
    wanted = validate_scopes(scopes)
    if org is None and uid is None:
        raise InvalidArgument("a key belongs to an org, a person or both: give --org or --user")
    secret = new_secret()
    prefix = parse_key_prefix(secret)
    assert prefix, "a generated key has a prefix"
    with translate_errors():
        async with pool.transaction() as connection:
            org_id = (await get_org(connection, org)).id if org else None
            person_id = (await get_person(connection, uid)).id if uid else None
            key = await repository.create_key(
                connection, name, prefix, secret, wanted, org_id, person_id, lifetime_seconds
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


async def revoke_person_keys(pool: Pool, uid: str) -> Sequence[ApiKey]:
    """Revoke every key of a person; return those that were not revoked before."""
    async with pool.transaction() as connection:
        return await repository.revoke_keys(connection, person_id=(await get_person(connection, uid)).id)


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


async def get_person(connection: Connection, uid: str) -> Person:
    """Return the person of this uid; NotFound when there is none."""
    if person := await repository.find_person(connection, uid):
        return person
    raise person_not_found(uid)


def person_not_found(uid: str) -> NotFound:
    """Return the error for an unknown uid."""
    name = ascii(uid[:200])
    return NotFound(f"there is no person with the uid {name}; see: duly people list, or: duly people create {name}")


async def set_quiet_hours(pool: Pool, uid: str, quiet_hours: QuietHours | None) -> Person:
    """Set the hours in which a person gets no reminders, or remove them."""
    async with pool.transaction() as connection:
        person = await repository.set_quiet_hours(connection, uid, quiet_hours)
    if person is None:
        raise person_not_found(uid)
    return person


async def set_webhook(pool: Pool, uid: str, webhook: WebhookAddress | None) -> Person:
    """Set or remove the webhook of a person."""
    async with pool.transaction() as connection:
        person = await get_person(connection, uid)
        if webhook:
            await repository.put_webhook(connection, person.id, webhook)
        else:
            await repository.drop_webhook(connection, person.id)
        return person


async def list_webhooks(pool: Pool, person_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the webhook URLs of these people, without secrets."""
    async with pool.transaction() as connection:
        return await repository.list_webhooks(connection, person_ids)


async def set_apprise(pool: Pool, uid: str, address: str | None) -> Person:
    """Set or remove the Apprise address of a person."""
    async with pool.transaction() as connection:
        person = await get_person(connection, uid)
        if address:
            await repository.put_apprise(connection, person.id, address)
        else:
            await repository.drop_apprise(connection, person.id)
        return person


async def list_apprise_services(pool: Pool, person_ids: Sequence[int]) -> Mapping[int, str]:
    """Return the Apprise services of these people, without credentials."""
    async with pool.transaction() as connection:
        return await repository.list_apprise_services(connection, person_ids)


async def rotate_links(pool: Pool, *, at_once: bool) -> int:
    """Add a key that signs links in messages; return how many older keys were deleted, with every link they signed."""
    async with pool.transaction() as connection:
        return await rotate_link_keys(connection, at_once=at_once)
