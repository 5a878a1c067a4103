"""What `duly expenses` offers."""

from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["expenses_app"]

expenses_app = typer.Typer(help="The books: what was spent, once for each run, and reversals.", no_args_is_help=True)

FormatName = Literal["csv", "beancount"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]
User = Annotated[str | None, typer.Option("--user", metavar="UID", help="Only this person's.")]
From = Annotated[
    str | None, typer.Option("--from", metavar="DAY|TIME", help="Of this day or later, such as 2026-01-01.")
]
To = Annotated[str | None, typer.Option("--to", metavar="DAY|TIME", help="Earlier than this day, such as 2027-01-01.")]
Zone = Annotated[str, typer.Option(help="In whose days and times, such as Europe/Stockholm.")]


@expenses_app.command("list")
def expenses_list(
    user: User = None,
    from_: From = None,
    to: To = None,
    zone: Zone = "UTC",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="So many at most.")] = 20,
    place: Annotated[str | None, typer.Option(help="Go on here: what the page before gave as next.")] = None,
    as_json: Json = False,
) -> None:
    """Show entries of the books, in the order they came in.

    Example: duly expenses list --user anna --from 2026-01-01 --to 2027-01-01
    """
    from duly.cli.expenses import list_expenses

    list_expenses(user, from_, to, zone, limit, place, as_json)


@expenses_app.command("export")
def expenses_export(
    form: Annotated[FormatName, typer.Option("--format", help="What to write.")],
    user: User = None,
    from_: From = None,
    to: To = None,
    zone: Zone = "UTC",
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it here, whole or not at all. Default: standard output.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say in JSON what was written; needs --out.")] = False,
) -> None:
    """Write the books for other programs, sorted by id: the same entries give the same bytes.

    csv: id, user_id, occurred_at, name, amount, currency, category, merchant,
    note, source_ref and reverses, as RFC 4180 has it. A text that a spreadsheet
    would take for a formula gets a ' before it.

    beancount: a transaction an entry, from Assets:Unknown to Expenses:Category;
    reversals are negative. The payee is the merchant, the narration the name;
    duly_id, duly_user, occurred_at, source_ref, reverses, category and note are
    metadata. In the name of an account, what is neither letter nor digit becomes
    a hyphen, and X- goes before what has no capital letter; entries without a
    category are under Expenses:Uncategorised.

    Example: duly expenses export --format beancount --user anna --from 2026-01-01 --out anna.beancount
    """
    from duly.cli.expenses import export_expenses

    export_expenses(form, user, from_, to, zone, out, as_json)
