"""`duly people`: people, where messages to them go, and their Telegram accounts."""

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from duly.accounts import Person, service
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

app = new_group("People: uid, Telegram id, time zone, language and addresses.")

NONE = "none"
STDIN = "-"
TelegramId = Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Their Telegram id.")]
Uid = Annotated[str, typer.Argument(help="Uid of the person.")]


@app.command("create")
def create_person(
    uid: Annotated[str, typer.Argument(help="The unique uid of the new person.")],
    telegram_id: TelegramId = None,
    zone: Annotated[str, typer.Option(help="Their time zone.")] = "UTC",
    language: Annotated[str, typer.Option(help="Their language.")] = "en",
    currency: Annotated[str, typer.Option(help="Their currency.")] = "EUR",
    as_json: Json = False,
) -> None:
    """Create a person; if the same person exists, print it and `existing`.

    Example: duly people create anna --zone Europe/Stockholm --language sv --currency SEK
    """
    creation = call_as_owner(
        lambda pool: service.create_person(
            pool, uid, telegram_id=telegram_id, zone=zone, language=language, currency=currency
        )
    )
    print_creation(creation, as_json)


@app.command("set")
def change_person(
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
    """Change a person; options that are not given keep their value. Ingested days stay with the Telegram id.

    Example: duly people set anna --telegram-id 42 --quiet 22:00-07:00 --webhook https://example.com/hooks
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

    async def change(pool: Pool) -> Person:
        person: Person | None = None
        if changes:
            person = await service.change_person(pool, uid, **changes)
        if quiet is not None:
            person = await service.set_quiet_hours(pool, uid, quiet_hours)
        if webhook is not None:
            person = await service.set_webhook(pool, uid, address)
        if apprise is not None:
            person = await service.set_apprise(pool, uid, apprise_url)
        assert person, "there is something to change"
        return person

    person = call_as_owner(change)
    new_secret = address.secret if address and webhook_secret is None else None
    document = {**to_document(person)}
    if webhook is not None:
        document["webhook"] = address.url if address else None
    if apprise is not None:  # of the URL only the service may be printed
        document["apprise"] = apprise_url.partition("://")[0] if apprise_url else None
    lines = [f"changed   {format_account(person)}"]
    if new_secret:
        document["webhook_secret"] = new_secret
        lines += [f"secret    {new_secret}", "          keep it now: it signs every webhook and cannot be shown again"]
    print_result(document, as_json, *lines)


@app.command("list")
def list_people(as_json: Json = False) -> None:
    """List the people, with quiet hours and addresses, without secrets.

    Example: duly people list --json
    """

    async def fetch(pool: Pool) -> tuple[Sequence[Person], Mapping[int, str], Mapping[int, str]]:
        people = await service.list_people(pool)
        ids = [person.id for person in people]
        return people, await service.list_webhooks(pool, ids), await service.list_apprise_services(pool, ids)

    people, webhooks, services = call_as_owner(fetch)
    if as_json:
        documents = [
            {**to_document(person), "webhook": webhooks.get(person.id), "apprise": services.get(person.id)}
            for person in people
        ]
        print(to_json(documents))
        return
    columns = ("id", "uid", "telegram_id", "user_id", "zone", "language", "currency")
    rows = [
        [
            *(getattr(person, name) for name in columns),
            format_quiet_hours(person),
            webhooks.get(person.id),
            services.get(person.id),
        ]
        for person in people
    ]
    print_table((*columns, "quiet", "webhook", "apprise"), rows)


@app.command("link")
def link_user(
    uid: Uid,
    user_id: Annotated[int, typer.Argument(metavar="USER_ID", help='Their id in the table "user".users.')],
    as_json: Json = False,
) -> None:
    """Link a person to a row of "user".users, to whom schedules belong; needed where another system owns that table.

    Example: duly people link anna 17
    """
    person = call_as_owner(lambda pool: service.link_user(pool, uid, user_id))
    print_result(to_document(person), as_json, f"changed   {format_account(person)}")


@app.command("link-telegram")
def link_telegram(
    uid: Uid,
    minutes: Annotated[
        float, typer.Option(min=1, max=10_080, help="Minutes until the link expires.")
    ] = LINK_TTL_MINUTES,
    as_json: Json = False,
) -> None:
    """Create a link that binds a Telegram account to a person; it works once.

    Example: duly people link-telegram anna --minutes 15
    """
    settings = load_settings()
    if settings.telegram_token is None:
        raise Misconfigured("TELEGRAM_BOT_TOKEN is not set: there is no bot to link people to")
    require("apps")
    person = call_as_owner(lambda pool: service.require_person(pool, uid))
    if person.telegram_id is not None:
        raise Conflict(
            f"{uid} has the Telegram id {person.telegram_id}; remove it with: duly people unlink-telegram {uid}"
        )
    link = create_telegram_link(
        settings.telegram_token.get_secret_value(), person.id, call_as_owner(get_current_time), minutes
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


@app.command("unlink-telegram")
def unlink_telegram(uid: Uid, as_json: Json = False) -> None:
    """Remove the Telegram id of a person, so that it can be bound to another. Ingested days stay with the id.

    Example: duly people unlink-telegram telegram:42
    """
    person = call_as_owner(lambda pool: service.unlink_telegram(pool, uid))
    print_result(to_document(person), as_json, f"changed   {format_account(person)}")


@app.command("revoke")
def revoke_person(uid: Uid, as_json: Json = False) -> None:
    """Revoke every API key of a person.

    Example: duly people revoke anna
    """
    print_revoked(call_as_owner(lambda pool: service.revoke_person_keys(pool, uid)), as_json)


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
