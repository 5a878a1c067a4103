"""`duly orgs`, `duly users`, `duly keys`: who there is, and whose key opens which door."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from duly.accounts import ApiKey, NewKey, Org, User, service
from duly.accounts.model import Webhook, new_webhook_secret, read_quiet
from duly.accounts.telegram_link import new_link
from duly.cli.asking import as_owner
from duly.cli.shown import outcome_of, print_table, text_of, to_json
from duly.db.clock import now
from duly.db.pool import Pool
from duly.errors import Conflict, InvalidArgument, Misconfigured
from duly.outcomes import Creation
from duly.settings import Settings, load_settings

__all__ = [
    "change_user",
    "create_key",
    "create_org",
    "create_user",
    "link_user",
    "list_keys",
    "list_orgs",
    "list_users",
    "revoke_key",
    "revoke_org",
    "revoke_user",
    "rotate_links",
    "unlink_user",
]

SECONDS_A_DAY = 86_400
NONE = "none"
STDIN = "-"
Shown = Org | User | ApiKey


def create_org(name: str, as_json: bool) -> None:
    """Make an org."""
    tell_creation(as_owner(lambda pool: service.create_org(pool, name)), as_json)


def list_orgs(as_json: bool) -> None:
    """Show the orgs."""
    tell_list(as_owner(service.list_orgs), ("name", "id", "created_at"), as_json)


def revoke_org(name: str, as_json: bool) -> None:
    """End every key of an org."""
    tell_revoked(as_owner(lambda pool: service.revoke_keys_of_org(pool, name)), as_json)


def create_user(uid: str, telegram_id: int | None, zone: str, language: str, currency: str, as_json: bool) -> None:
    """Make a person."""
    creation = as_owner(
        lambda pool: service.create_user(
            pool, uid, telegram_id=telegram_id, zone=zone, language=language, currency=currency
        )
    )
    tell_creation(creation, as_json)


def change_user(
    uid: str,
    described: Mapping[str, Any],
    quiet: str | None,
    webhook: str | None,
    webhook_secret: str | None,
    apprise: str | None,
    as_json: bool,
) -> None:
    """Describe a person anew; everything is checked before anything is changed."""
    words = {name: value for name, value in described.items() if value is not None}
    if not words and all(each is None for each in (quiet, webhook, webhook_secret, apprise)):
        raise InvalidArgument(
            "say what is to change: --telegram-id, --zone, --language, --currency, --quiet, --webhook or --apprise"
        )
    hours = None if quiet is None or quiet == NONE else read_quiet(quiet)
    address = address_of(webhook, webhook_secret)
    named = None if apprise is None or apprise == NONE else checked_apprise(apprise)
    kind = named.partition("://")[0] if named else None  # all that may be shown of it

    async def question(pool: Pool) -> User:
        user: User | None = None
        if words:
            user = await service.change_user(pool, uid, **words)
        if quiet is not None:
            user = await service.set_quiet(pool, uid, hours)
        if webhook is not None:
            user = await service.set_webhook(pool, uid, address)
        if apprise is not None:
            user = await service.set_apprise(pool, uid, named)
        assert user, "something is to change"
        return user

    user = as_owner(question)
    secret = address.secret if address and webhook_secret is None else None
    if as_json:
        told: dict[str, Any] = {"webhook": address.url if address else None} if webhook is not None else {}
        told |= {"apprise": kind} if apprise is not None else {}
        print(to_json({**told_user(user), **told, **({"webhook_secret": secret} if secret else {})}))
        return
    print(f"changed   {line_of(user)}")
    if secret:
        print(f"secret    {secret}")
        print("          keep it now: it signs every webhook, and is not shown again")


def address_of(webhook: str | None, secret: str | None) -> Webhook | None:
    """The webhook that was asked for, with a secret of its own unless one was given."""
    if webhook is not None and webhook != NONE:
        return Webhook(webhook, secret if secret is not None else new_webhook_secret())
    if secret is not None:
        raise InvalidArgument("--webhook-secret needs --webhook: it signs what goes to that address")
    return None


def checked_apprise(address: str) -> str:
    """An address for apprise that we can use; "-" reads it from standard input, where nobody else sees it."""
    from duly.extras import install
    from duly.outbox.channels.apprise.address import checked_address

    install("apprise")
    given = sys.stdin.readline().strip() if address == STDIN else address
    return checked_address(given, allow_private=load_settings().webhook_allow_private)


def list_users(as_json: bool) -> None:
    """Show the people, with their quiet hours, webhooks and services, never a secret."""

    async def question(pool: Pool) -> tuple[Sequence[User], Mapping[int, str], Mapping[int, str]]:
        users = await service.list_users(pool)
        ids = [user.id for user in users]
        return users, await service.list_webhooks(pool, ids), await service.list_services(pool, ids)

    users, addresses, services = as_owner(question)
    if as_json:
        print(
            to_json(
                [
                    {**told_user(user), "webhook": addresses.get(user.id), "apprise": services.get(user.id)}
                    for user in users
                ]
            )
        )
        return
    columns = ("id", "uid", "telegram_id", "zone", "language", "currency")
    rows = [
        [*(getattr(user, name) for name in columns), quiet_of(user), addresses.get(user.id), services.get(user.id)]
        for user in users
    ]
    print_table((*columns, "quiet", "webhook", "apprise"), rows)


def link_user(uid: str, minutes: float, as_json: bool) -> None:
    """Make a link to the bot for a person, and say where to open it."""
    settings = load_settings()
    if settings.telegram_token is None:
        raise Misconfigured("TELEGRAM_BOT_TOKEN is not set: there is no bot to link anybody to")
    person = as_owner(lambda pool: service.find_person(pool, uid))
    if person is None:
        raise service.nobody(uid)
    if person.telegram_id is not None:
        raise Conflict(
            f"{uid} has the Telegram id {person.telegram_id}; take it off them with: duly users unlink {uid}"
        )
    link = new_link(settings.telegram_token.get_secret_value(), person.id, as_owner(now), minutes)
    name = bot_name(settings)
    address = f"https://t.me/{name}?start={link}" if name else None
    if as_json:
        print(to_json({"uid": uid, "link": link, "address": address, "minutes": minutes}))
        return
    print(f"open      {address}" if address else "          the Bot API does not answer: find the bot by its name")
    print(f"or write  /start {link}")
    print(f"          to the bot within {minutes:g} minutes; it works once")


def bot_name(settings: Settings) -> str | None:
    """What the bot is called on Telegram; None when the Bot API does not say."""
    import httpx2

    from duly.doctor.telegram import ask_bot_api

    try:
        return ask_bot_api(settings, "getMe", settings.telegram_seconds).get("username")
    except (httpx2.HTTPError, ValueError):
        return None


def unlink_user(uid: str, as_json: bool) -> None:
    """Take the Telegram id off a person."""
    user = as_owner(lambda pool: service.unlink_telegram(pool, uid))
    print(to_json(told_user(user)) if as_json else f"changed   {line_of(user)}")


def revoke_user(uid: str, as_json: bool) -> None:
    """End every key of a person."""
    tell_revoked(as_owner(lambda pool: service.revoke_keys_of_user(pool, uid)), as_json)


def create_key(
    name: str, scopes: list[str], org: str | None, uid: str | None, days: float | None, as_json: bool
) -> None:
    """Make a key and show its secret, this once."""
    lifetime = None if days is None else days * SECONDS_A_DAY

    async def question(pool: Pool) -> tuple[NewKey, bool]:
        is_first = not await service.has_keys(pool)
        made = await service.create_key(pool, name, scopes, org=org, uid=uid, lifetime_seconds=lifetime)
        return made, is_first

    made, is_first = as_owner(question)
    if as_json:
        print(to_json({**asdict(made.key), "secret": made.secret, "is_first": is_first}))
        return
    print(f"created   {made.key.prefix}  {' '.join(made.key.scopes)}")
    print(f"secret    {made.secret}")
    print("          keep it now: it is not shown again, and not stored")
    if is_first:
        print("note      this is the first key: from now on every request to the API needs one, from this machine too,")
        print("          even after all keys were revoked; send it as: Authorization: Bearer SECRET")


def list_keys(as_json: bool) -> None:
    """Show the keys, without their secrets."""
    tell_list(as_owner(service.list_keys), ("prefix", "name", "scopes", "expires_at", "revoked_at"), as_json)


def revoke_key(prefix: str, as_json: bool) -> None:
    """End one key."""
    tell_revoked([as_owner(lambda pool: service.revoke_key(pool, prefix))], as_json)


def rotate_links(at_once: bool, as_json: bool) -> None:
    """Have a new key sign the links in messages."""
    gone = as_owner(lambda pool: service.rotate_links(pool, at_once=at_once))
    if as_json:
        print(to_json({"forgotten": gone}))
    else:
        print(f"rotated   links are signed by a new key; {gone} older keys are forgotten, and what they signed")


def tell_creation(creation: Creation[Org] | Creation[User], as_json: bool) -> None:
    """What was made, or was there already."""
    outcome = outcome_of(creation)
    if as_json:
        print(to_json({"outcome": outcome, **told(creation.row)}))
    else:
        print(f"{outcome:9} {line_of(creation.row)}")


def line_of(row: Shown) -> str:
    """All that is known of an org or a person, in one line."""
    return "  ".join(f"{name} {text_of(value)}" for name, value in told(row).items() if value is not None)


def told(row: Shown) -> Mapping[str, Any]:
    """All that is known of an org or a person."""
    return told_user(row) if isinstance(row, User) else asdict(row)


def told_user(user: User) -> Mapping[str, Any]:
    """All that is known of a person, with the quiet hours as they are given."""
    hours = ("quiet_from", "quiet_until")
    return {**{name: value for name, value in asdict(user).items() if name not in hours}, "quiet": quiet_of(user)}


def quiet_of(user: User) -> str | None:
    """The hours in which nobody reminds a person."""
    return f"{user.quiet_from:%H:%M}-{user.quiet_until:%H:%M}" if user.quiet_from else None


def tell_revoked(keys: Sequence[ApiKey], as_json: bool) -> None:
    """Which keys open no door any more."""
    if as_json:
        print(to_json([asdict(key) for key in keys]))
    else:
        print("\n".join(f"revoked   {key.prefix}  {text_of(key.name)}" for key in keys) or "no key was alive")


def tell_list(rows: Sequence[Shown], columns: Sequence[str], as_json: bool) -> None:
    """A table for people, an array for programs."""
    if as_json:
        print(to_json([asdict(row) for row in rows]))
        return
    print_table(columns, [[getattr(row, column) for column in columns] for row in rows])
