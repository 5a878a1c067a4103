"""`duly keys`: API keys, and the key that signs links."""

from dataclasses import asdict
from typing import Annotated

import typer

from duly.accounts import NewKey, service
from duly.cli.accounts_output import print_accounts, print_revoked
from duly.cli.database_call import call_as_owner
from duly.cli.options import Json, new_group
from duly.cli.output import print_result
from duly.db.pool import Pool

app = new_group("API keys, and the key that signs links in messages.")

SECONDS_PER_DAY = 86_400
FIRST_KEY_NOTE = (
    "note      this is the first key: from now on every request to the API needs one, from this machine too,",
    "          even after all keys were revoked; send it as: Authorization: Bearer SECRET",
)


@app.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scopes: Annotated[list[str], typer.Option("--scope", help="What the key permits; may be given several times.")],
    org: Annotated[str | None, typer.Option(help="Name or id of the org that owns it.")] = None,
    user: Annotated[str | None, typer.Option(help="Uid of the user that owns it.")] = None,
    days: Annotated[float | None, typer.Option(help="Days until it expires. Default: never.")] = None,
    as_json: Json = False,
) -> None:
    """Create an API key and print its secret, which is not stored and cannot be printed again.

    Example: duly keys create ci --org acme --scope ledger:write --days 90
    """
    lifetime_seconds = None if days is None else days * SECONDS_PER_DAY

    async def create(pool: Pool) -> tuple[NewKey, bool]:
        is_first = not await service.has_keys(pool)
        new = await service.create_key(pool, name, scopes, org=org, uid=user, lifetime_seconds=lifetime_seconds)
        return new, is_first

    new, is_first = call_as_owner(create)
    print_result(
        {**asdict(new.key), "secret": new.secret, "is_first": is_first},
        as_json,
        f"created   {new.key.prefix}  {' '.join(new.key.scopes)}",
        f"secret    {new.secret}",
        "          keep it now: it is not stored and cannot be shown again",
        *(FIRST_KEY_NOTE if is_first else ()),
    )


@app.command("list")
def list_keys(as_json: Json = False) -> None:
    """List API keys, with revoked and expired ones, without secrets.

    Example: duly keys list
    """
    columns = ("prefix", "name", "scopes", "expires_at", "revoked_at")
    print_accounts(call_as_owner(service.list_keys), columns, as_json)


@app.command("revoke")
def revoke_key(
    prefix: Annotated[str, typer.Argument(help="Prefix of the key, as `duly keys list` prints it.")],
    as_json: Json = False,
) -> None:
    """Revoke an API key; revoking it again changes nothing.

    Example: duly keys revoke duly_a1b2c3d4e5f6
    """
    print_revoked([call_as_owner(lambda pool: service.revoke_key(pool, prefix))], as_json)


@app.command("rotate-links")
def rotate_links(
    now: Annotated[bool, typer.Option("--now", help="Invalidate links that were sent before.")] = False,
    as_json: Json = False,
) -> None:
    """Sign links in messages with a new key; links that were sent before work until they expire.

    Example: duly keys rotate-links --now
    """
    deleted = call_as_owner(lambda pool: service.rotate_links(pool, at_once=now))
    text = f"rotated   links are signed by a new key; {deleted} older keys were deleted, their links are invalid"
    print_result({"deleted_keys": deleted}, as_json, text)
