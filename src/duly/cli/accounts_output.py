"""What `duly orgs`, `duly people` and `duly keys` print."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from duly.accounts import ApiKey, Org, Person
from duly.cli.output import creation_outcome, format_value, print_result, print_table, to_json
from duly.outcomes import Creation


def print_creation(creation: Creation[Org] | Creation[Person], as_json: bool) -> None:
    """Print an org or a person, and whether it was created or existed."""
    outcome, account = creation_outcome(creation), creation.row
    print_result({"outcome": outcome, **to_document(account)}, as_json, f"{outcome:9} {format_account(account)}")


def print_revoked(keys: Sequence[ApiKey], as_json: bool) -> None:
    """Print the keys that were revoked."""
    lines = [f"revoked   {key.prefix}  {format_value(key.name)}" for key in keys] or ["no key was valid"]
    print_result([asdict(key) for key in keys], as_json, *lines)


def print_accounts(accounts: Sequence[Org | ApiKey], columns: Sequence[str], as_json: bool) -> None:
    """Print a list of orgs or keys."""
    if as_json:
        print(to_json([asdict(account) for account in accounts]))
    else:
        print_table(columns, [[getattr(account, column) for column in columns] for account in accounts])


def format_account(account: Org | Person) -> str:
    """Format the fields of an org or a person on one line."""
    return "  ".join(
        f"{name} {format_value(value)}" for name, value in to_document(account).items() if value is not None
    )


def to_document(account: Org | Person) -> Mapping[str, Any]:
    """Convert an org or a person to JSON fields; quiet hours as they are given to `duly people set`."""
    fields = asdict(account)
    if isinstance(account, Person):
        del fields["quiet_from"], fields["quiet_until"]
        fields["quiet"] = format_quiet_hours(account)
    return fields


def format_quiet_hours(person: Person) -> str | None:
    """Format the hours of the day in which a person gets no reminders."""
    return f"{person.quiet_from:%H:%M}-{person.quiet_until:%H:%M}" if person.quiet_from else None
