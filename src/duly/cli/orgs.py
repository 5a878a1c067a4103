"""`duly orgs`: the tenants."""

from typing import Annotated

import typer

from duly.accounts import service
from duly.cli.accounts_output import print_accounts, print_creation, print_revoked
from duly.cli.database_call import call_as_owner
from duly.cli.options import Json, new_group

app = new_group("Organizations: the tenants that own jobs and API keys.")


@app.command("create")
def create_org(name: Annotated[str, typer.Argument(help="Its unique name.")], as_json: Json = False) -> None:
    """Create an org; if the name exists, print that org and `existing`.

    Example: duly orgs create acme
    """
    print_creation(call_as_owner(lambda pool: service.create_org(pool, name)), as_json)


@app.command("list")
def list_orgs(as_json: Json = False) -> None:
    """List the orgs.

    Example: duly orgs list
    """
    print_accounts(call_as_owner(service.list_orgs), ("name", "id", "created_at"), as_json)


@app.command("revoke")
def revoke_org(name: Annotated[str, typer.Argument(help="Name or id of the org.")], as_json: Json = False) -> None:
    """Revoke every API key of an org.

    Example: duly orgs revoke acme
    """
    print_revoked(call_as_owner(lambda pool: service.revoke_org_keys(pool, name)), as_json)
