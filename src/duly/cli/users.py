"""`duly users`: people, where messages to them go, and their Telegram accounts."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from duly.accounts import User, service
from duly.accounts.model import WebhookAddress, new_webhook_secret, parse_quiet_hours
from duly.accounts.telegram_link import LINK_TTL_MINUTES, create_telegram_link
from duly.cli.accounts_output import (
    format_account,
    format_quiet_hours,
    print_creation,
    print_revoked,
    to_document,
)
from duly.cli.database_call import call_as_owner
from duly.cli.options import Json, new_group
from duly.cli.output import print_result, print_table, to_json
from duly.db.clock import get_current_time
from duly.db.pool import Pool
from duly.errors import Conflict, InvalidArgument, Misconfigured, Unavailable
from duly.extras import install, require
from duly.settings import Settings, load_settings

app = new_group("Users: uid, Telegram id, time zone, language and addresses.")

NONE = "none"
STDIN = "-"
TelegramId = Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Their Telegram id.")]
Uid = Annotated[str, typer.Argument(help="Uid of the user.")]


@app.command("create")
def create_user(
    uid: Annotated[str, typer.Argument(help="The unique uid of the new user.")],
    telegram_id: TelegramId = None,
    zone: Annotated[str, typer.Option(help="Their time zone.")] = "UTC",
    language: Annotated[str, typer.Option(help="Their language.")] = "en",
    currency: Annotated[str, typer.Option(help="Their currency.")] = "EUR",
    as_json: Json = False,
) -> None:
    """Create a user; if the same user exists, print it and `existing`.

    Example: duly users create anna --zone Europe/Stockholm --language sv --currency SEK
    """
    creation = call_as_owner(
        lambda pool: service.create_user(
            pool, uid, telegram_id=telegram_id, zone=zone, language=language, currency=currency
        )
    )
    print_creation(creation, as_json)


@app.command("set")
def change_user(
    uid: Uid,
    telegram_id: TelegramId = None,
    zone: Annotated[str | None, typer.Option(help="Their time zone.")] = None,
    language: Annotated[str | None, typer.Option(help="Their language.")] = None,
    currency: Annotated[str | None, typer.Option(help="Their currency.")] = None,
    quiet: Annotated[
        str | None,
        typer.Option(metavar="HH:MM-HH:MM|none", help="The hours of their day in which no reminders are sent."),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL|none", help="The URL that receives their messages.")
    ] = None,
    webhook_secret: Annotated[
        str | None,
        typer.Option(metavar="whsec_...", help="The secret that signs webhooks. Default: a new one, printed once."),
    ] = None,
    apprise: Annotated[
        str | None,
        typer.Option(
            metavar="SERVICE://...|none",
            help="The Apprise URL that receives their messages; - reads it from stdin, as it may hold passwords.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Change a user; options that are not given keep their value. Ingested days stay with the Telegram id.

    Example: duly users set anna --telegram-id 42 --quiet 22:00-07:00 --webhook https://example.com/hooks
    """
    fields = {"telegram_id": telegram_id, "zone": zone, "language": language, "currency": currency}
    changes: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if not changes and all(each is None for each in (quiet, webhook, webhook_secret, apprise)):
        raise InvalidArgument(
            "nothing to change: give --telegram-id, --zone, --language, --currency, --quiet, --webhook or --apprise"
        )
    quiet_hours = None if quiet is None or quiet == NONE else parse_quiet_hours(quiet)
    address = parse_webhook(webhook, webhook_secret)
    apprise_url = None if apprise is None or apprise == NONE else parse_apprise(apprise)

    async def change(pool: Pool) -> User:
        user: User | None = None
        if changes:
            user = await service.change_user(pool, uid, **changes)
        if quiet is not None:
            user = await service.set_quiet_hours(pool, uid, quiet_hours)
        if webhook is not None:
            user = await service.set_webhook(pool, uid, address)
        if apprise is not None:
            user = await service.set_apprise(pool, uid, apprise_url)
        assert user, "there is something to change"
        return user

    user = call_as_owner(change)
    new_secret = address.secret if address and webhook_secret is None else None
    document = {**to_document(user)}
    if webhook is not None:
        document["webhook"] = address.url if address else None
    if apprise is not None:  # of the URL only the service may be printed
        document["apprise"] = apprise_url.partition("://")[0] if apprise_url else None
    lines = [f"changed   {format_account(user)}"]
    if new_secret:
        document["webhook_secret"] = new_secret
        lines += [f"secret    {new_secret}", "          keep it now: it signs every webhook and cannot be shown again"]
    print_result(document, as_json, *lines)


@app.command("list")
def list_users(as_json: Json = False) -> None:
    """List the users, with quiet hours and addresses, without secrets.

    Example: duly users list --json
    """

    async def fetch(pool: Pool) -> tuple[Sequence[User], Mapping[int, str], Mapping[int, str]]:
        users = await service.list_users(pool)
        ids = [user.id for user in users]
        return users, await service.list_webhooks(pool, ids), await service.list_apprise_services(pool, ids)

    users, webhooks, services = call_as_owner(fetch)
    if as_json:
        documents = [
            {**to_document(user), "webhook": webhooks.get(user.id), "apprise": services.get(user.id)} for user in users
        ]
        print(to_json(documents))
        return
    columns = ("id", "uid", "telegram_id", "zone", "language", "currency")
    rows = [
        [
            *(getattr(user, name) for name in columns),
            format_quiet_hours(user),
            webhooks.get(user.id),
            services.get(user.id),
        ]
        for user in users
    ]
    print_table((*columns, "quiet", "webhook", "apprise"), rows)


@app.command("link")
def link_user(
    uid: Uid,
    minutes: Annotated[
        float, typer.Option(min=1, max=10_080, help="Minutes until the link expires.")
    ] = LINK_TTL_MINUTES,
    as_json: Json = False,
) -> None:
    """Create a link that binds a Telegram account to a user; it works once.

    Example: duly users link anna --minutes 15
    """
    settings = load_settings()
    if settings.telegram_token is None:
        raise Misconfigured("TELEGRAM_BOT_TOKEN is not set: there is no bot to link users to")
    require("apps")
    user = call_as_owner(lambda pool: service.find_user(pool, uid))
    if user is None:
        raise service.user_not_found(uid)
    if user.telegram_id is not None:
        raise Conflict(f"{uid} has the Telegram id {user.telegram_id}; remove it with: duly users unlink {uid}")
    link = create_telegram_link(
        settings.telegram_token.get_secret_value(), user.id, call_as_owner(get_current_time), minutes
    )
    name = fetch_bot_name(settings)
    url = f"https://t.me/{name}?start={link}" if name else None
    print_result(
        {"uid": uid, "link": link, "address": url, "minutes": minutes},
        as_json,
        f"open      {url}" if url else "          the Bot API does not answer: find the bot by its name",
        f"or write  /start {link}",
        f"          to the bot within {minutes:g} minutes; it works once",
    )


@app.command("unlink")
def unlink_user(uid: Uid, as_json: Json = False) -> None:
    """Remove the Telegram id of a user, so that it can be bound to another. Ingested days stay with the id.

    Example: duly users unlink telegram:42
    """
    user = call_as_owner(lambda pool: service.unlink_telegram(pool, uid))
    print_result(to_document(user), as_json, f"changed   {format_account(user)}")


@app.command("revoke")
def revoke_user(uid: Uid, as_json: Json = False) -> None:
    """Revoke every API key of a user.

    Example: duly users revoke anna
    """
    print_revoked(call_as_owner(lambda pool: service.revoke_user_keys(pool, uid)), as_json)


# Helpers --------------------------------------------------------------------------------------------------------------


def parse_webhook(url: str | None, secret: str | None) -> WebhookAddress | None:
    """Return the webhook of these options, with a new secret unless one is given."""
    if url is not None and url != NONE:
        return WebhookAddress(url, secret if secret is not None else new_webhook_secret())
    if secret is not None:
        raise InvalidArgument("--webhook-secret needs --webhook: it signs the requests to that URL")
    return None


def parse_apprise(url: str) -> str:
    """Validate an Apprise URL; "-" reads it from standard input, where no other process sees it."""
    install("apprise")
    from duly.outbox.channels.apprise.address import validate_address  # apprise is an extra

    given = sys.stdin.readline().strip() if url == STDIN else url
    return validate_address(given, allow_private=load_settings().webhook_allow_private)


def fetch_bot_name(settings: Settings) -> str | None:
    """Return the bot's name on Telegram; None if the Bot API does not answer."""
    from duly.doctor.telegram import call_bot_api  # imports the whole doctor

    try:
        return call_bot_api(settings, "getMe", settings.telegram_seconds).get("username")
    except (Unavailable, ValueError):
        return None
