"""What `duly orgs`, `duly users` and `duly keys` offer."""

from typing import Annotated

import typer

__all__ = ["keys_app", "orgs_app", "users_app"]

orgs_app = typer.Typer(help="Tenants: whose jobs and keys these are.", no_args_is_help=True)
users_app = typer.Typer(help="People: who a uid or a Telegram id is.", no_args_is_help=True)
keys_app = typer.Typer(help="Keys of the HTTP API.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
OrgName = Annotated[str, typer.Argument(help="The org's name, or its id.")]
TelegramId = Annotated[int | None, typer.Option(min=1, max=2**63 - 1, help="Their Telegram id.")]
Uid = Annotated[str, typer.Argument(help="The person's uid.")]


@orgs_app.command("create")
def orgs_create(name: Annotated[str, typer.Argument(help="Its name, not used before.")], as_json: Json = False) -> None:
    """Make an org; a name that is there already is no error.

    Example: duly orgs create acme
    """
    from duly.cli.people import create_org

    create_org(name, as_json)


@orgs_app.command("list")
def orgs_list(as_json: Json = False) -> None:
    """Show the orgs.

    Example: duly orgs list
    """
    from duly.cli.people import list_orgs

    list_orgs(as_json)


@orgs_app.command("revoke")
def orgs_revoke(name: OrgName, as_json: Json = False) -> None:
    """End every key of an org.

    Example: duly orgs revoke acme
    """
    from duly.cli.people import revoke_org

    revoke_org(name, as_json)


@users_app.command("create")
def users_create(
    uid: Annotated[str, typer.Argument(help="The person's uid, not used before.")],
    telegram_id: TelegramId = None,
    zone: Annotated[str, typer.Option(help="Their time zone.")] = "UTC",
    language: Annotated[str, typer.Option(help="Their language.")] = "en",
    currency: Annotated[str, typer.Option(help="Their currency.")] = "EUR",
    as_json: Json = False,
) -> None:
    """Make a person; the same person again is no error.

    Example: duly users create anna --zone Europe/Stockholm --language sv --currency SEK
    """
    from duly.cli.people import create_user

    create_user(uid, telegram_id, zone, language, currency, as_json)


@users_app.command("set")
def users_set(
    uid: Uid,
    telegram_id: TelegramId = None,
    zone: Annotated[str | None, typer.Option(help="Their time zone.")] = None,
    language: Annotated[str | None, typer.Option(help="Their language.")] = None,
    currency: Annotated[str | None, typer.Option(help="Their currency.")] = None,
    quiet: Annotated[
        str | None,
        typer.Option(metavar="HH:MM-HH:MM|none", help="The hours of their day in which nobody reminds them."),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(metavar="URL|none", help="Where messages to them go by webhook.")
    ] = None,
    webhook_secret: Annotated[
        str | None, typer.Option(metavar="whsec_...", help="What signs them. Default: a new one, shown this once.")
    ] = None,
    apprise: Annotated[
        str | None,
        typer.Option(
            metavar="SERVICE://...|none",
            help="Where messages to them go by apprise; - reads it from standard input, for it holds passwords.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Describe a person anew; what is not given stays. Days belong to a Telegram id, and stay with it.

    Example: duly users set anna --telegram-id 42 --quiet 22:00-07:00 --webhook https://example.com/hooks
    """
    from duly.cli.people import change_user

    described = {"telegram_id": telegram_id, "zone": zone, "language": language, "currency": currency}
    change_user(uid, described, quiet, webhook, webhook_secret, apprise, as_json)


@users_app.command("list")
def users_list(as_json: Json = False) -> None:
    """Show the people.

    Example: duly users list --json
    """
    from duly.cli.people import list_users

    list_users(as_json)


@users_app.command("link")
def users_link(
    uid: Uid,
    minutes: Annotated[float, typer.Option(min=1, max=10_080, help="How long the link works.")] = 60.0,
    as_json: Json = False,
) -> None:
    """Make a link that binds a Telegram account to a person: once, and one account to one person.

    Example: duly users link anna --minutes 15
    """
    from duly.cli.people import link_user

    link_user(uid, minutes, as_json)


@users_app.command("unlink")
def users_unlink(uid: Uid, as_json: Json = False) -> None:
    """Take the Telegram id off a person, so that it can be bound to another. Days stay with the id.

    Example: duly users unlink telegram:42
    """
    from duly.cli.people import unlink_user

    unlink_user(uid, as_json)


@users_app.command("revoke")
def users_revoke(uid: Uid, as_json: Json = False) -> None:
    """End every key of a person.

    Example: duly users revoke anna
    """
    from duly.cli.people import revoke_user

    revoke_user(uid, as_json)


@keys_app.command("create")
def keys_create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    scope: Annotated[list[str], typer.Option(help="What it may do; give it several times for several.")],
    org: Annotated[str | None, typer.Option(help="The org it belongs to, by name or id.")] = None,
    user: Annotated[str | None, typer.Option(help="The person it belongs to, by uid.")] = None,
    days: Annotated[float | None, typer.Option(help="How long it lives; unset: until it is revoked.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key; its secret is shown this once.

    Example: duly keys create ci --org acme --scope ledger:write --days 90
    """
    from duly.cli.people import create_key

    create_key(name, scope, org, user, days, as_json)


@keys_app.command("list")
def keys_list(as_json: Json = False) -> None:
    """Show the keys, revoked and expired ones too, without their secrets.

    Example: duly keys list
    """
    from duly.cli.people import list_keys

    list_keys(as_json)


@keys_app.command("revoke")
def keys_revoke(
    prefix: Annotated[str, typer.Argument(help="Its prefix, as the list shows it.")], as_json: Json = False
) -> None:
    """End one key; doing it twice is doing it once.

    Example: duly keys revoke duly_a1b2c3d4e5f6
    """
    from duly.cli.people import revoke_key

    revoke_key(prefix, as_json)


@keys_app.command("rotate-links")
def keys_rotate_links(
    now: Annotated[bool, typer.Option("--now", help="Links that were sent before lead nowhere from now on.")] = False,
    as_json: Json = False,
) -> None:
    """Sign the links in messages with a new key; those that were sent work on until their time is over.

    Example: duly keys rotate-links --now
    """
    from duly.cli.people import rotate_links

    rotate_links(now, as_json)
