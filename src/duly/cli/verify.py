"""`duly verify`: compare a database with the contracts, and check the invariants."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import psycopg
import typer

from duly.cli.existing_database import open_existing
from duly.cli.options import Json
from duly.cli.progress import step_progress
from duly.db.migrate import direct_dsn
from duly.db.migrations import Names, names_of
from duly.db.pool import with_keepalive
from duly.errors import NotMigrated, Unavailable
from duly.settings import load_settings
from duly.verify import Invariant, check, compare, select_invariants
from duly.verify.backend import compare_backend, find_owner, has_contract_event_key, is_migrated, is_owned_by_backend
from duly.verify.contract import CONTRACTS, contract_lines, contract_schemas, has_tables
from duly.verify.document import build_document
from duly.wiring import states_of

app = typer.Typer()

PROBLEMS_FOUND = 1
REBUILD_INVARIANT = "events_rebuild_their_day"  # need not hold where a backend's unique key may reject an event


@app.command("verify")
def verify(
    contract: Annotated[str | None, typer.Option(help="Only this contract. Default: all.")] = None,
    print_contract: Annotated[
        bool,
        typer.Option(
            "--print-contract",
            help="Print the contract itself as JSON, for checkers in other languages, without opening a database.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare the database with the contracts and check the invariants; read-only.

    Exit 1 if there is a difference or an invariant is broken.

    Example: duly verify --json
    """
    if print_contract:
        run_print_contract(contract)
    else:
        run_verify(contract, as_json)


def run_verify(contract: str | None, as_json: bool) -> None:
    """Compare and check; exit 1 if anything is found."""
    settings = load_settings()
    roles = names_of(settings)
    selected = select_contracts(contract, roles)
    with open_existing(settings) as database:
        try:
            with psycopg.connect(with_keepalive(direct_dsn(settings, database)), autocommit=True) as connection:
                is_owned, reader = is_owned_by_backend(connection, roles.ingest), settings.owner_role
                if is_owned and not is_migrated(connection):
                    selected, reader = selected if contract else ["ingest"], find_owner(connection, roles.ingest)
                schemas = [schema for name in selected for schema in contract_schemas(name, roles)]
                invariants = select_invariants(selected)
                if is_owned and has_contract_event_key(connection, roles.ingest):
                    invariants = [each for each in invariants if each.name != REBUILD_INVARIANT]
                if not all(has_tables(connection, name, roles) for name in selected):
                    raise NotMigrated("this database lacks duly's tables; create them with: duly migrate")
                states = vars(states_of(settings)).values()
                differences = [
                    difference
                    for name in selected
                    for difference in (
                        compare_backend(connection, roles.ingest, list(states))
                        if is_owned and name == "ingest"
                        else compare(connection, name, roles)
                    )
                ]
                with step_progress(len(invariants)) as show_step:
                    offences = check(
                        connection,
                        schemas,
                        invariants,
                        ingest=settings.db_schema,
                        done=settings.done_state,
                        failed=settings.failed_state,
                        reader=reader,
                        on_progress=lambda done: show_step(done, next_name(invariants, done)),
                    )
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None
    if as_json:
        found = {"differences": differences, "offences": offences}
        print(json.dumps({name: [asdict(each) for each in rows] for name, rows in found.items()}))
    else:
        for difference in differences:
            print(f"{difference.kind:10} {difference.line}")
        for offence in offences:
            print(f"{offence.kind:10} {offence.invariant}: {offence.offender}")
        broken = sum(offence.kind == "broken" for offence in offences)
        outcome = f"{len(differences)} differences, {broken} offences"
        names = [f"{name} (a backend's tables)" if is_owned and name == "ingest" else name for name in selected]
        print(f"duly: contracts {', '.join(names)}; {len(invariants)} invariants; {outcome}")
    # Invariants about tables that only duly has cannot be checked on a backend's: that is no failure.
    if differences or any(offence.kind == "broken" or not is_owned for offence in offences):
        sys.exit(PROBLEMS_FOUND)


def next_name(invariants: Sequence[Invariant], done: int) -> str:
    """Return the name of the invariant that is checked next."""
    return invariants[done].name if done < len(invariants) else ""


def run_print_contract(contract: str | None) -> None:
    """Print what would be checked as one JSON document."""
    settings = load_settings()
    names = names_of(settings)
    document = build_document(
        select_contracts(contract, names), names, done=settings.done_state, failed=settings.failed_state
    )
    print(json.dumps(document, indent=2))


def select_contracts(contract: str | None, names: Names) -> Sequence[str]:
    """Return the contracts to check; an unknown name is refused before anything is opened."""
    selected = [contract] if contract else list(CONTRACTS)
    for name in selected:
        contract_lines(name, names)
    return selected
