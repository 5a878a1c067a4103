"""`duly verify`: compare a database with the contracts, and check the invariants."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import psycopg
import typer

from duly.applications import describe_as_off, load_application
from duly.cli.existing_database import open_existing
from duly.cli.options import Json
from duly.cli.output import print_result
from duly.cli.progress import step_progress
from duly.db.location import direct_dsn
from duly.db.migrations import names_from_settings
from duly.db.pool import with_keepalive
from duly.errors import Misconfigured, NotMigrated, Unavailable
from duly.settings import Settings, load_settings
from duly.verify import Difference, Invariant, Violation, check, compare, select_invariants
from duly.verify.backend import compare_backend, find_owner, has_contract_event_key, is_migrated, is_owned_by_backend
from duly.verify.contract import (
    CONTRACTS,
    contract_lines,
    contract_schemas,
    has_tables,
    installed_contracts,
    list_contracts,
)
from duly.verify.document import build_document

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
    selected = select_contracts(contract, settings)
    with open_existing(settings) as database:
        try:
            with psycopg.connect(with_keepalive(direct_dsn(settings, database)), autocommit=True) as connection:
                findings = find_problems(connection, settings, selected, has_choice=contract is not None)
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None
    document = {"differences": findings.differences, "violations": findings.violations}
    documents = {name: [asdict(each) for each in found] for name, found in document.items()}
    print_result(documents, as_json, *format_findings(findings))
    if findings.is_failure:
        sys.exit(PROBLEMS_FOUND)


@dataclass(frozen=True)
class Findings:
    """What was verified, and what was found."""

    contracts: Sequence[str]
    invariants: Sequence[Invariant]
    is_backend: bool  # the tables of ingest belong to a backend
    differences: Sequence[Difference]
    violations: Sequence[Violation]

    @property
    def is_failure(self) -> bool:
        """Whether anything is wrong; invariants about tables that a backend lacks cannot be checked there."""
        return bool(self.differences) or any(each.kind == "broken" or not self.is_backend for each in self.violations)


def find_problems(
    connection: psycopg.Connection[Any], settings: Settings, contracts: Sequence[str], *, has_choice: bool
) -> Findings:
    """Compare the contracts and check their invariants; of a backend's own database only ingest, unless chosen."""
    names, reader = names_from_settings(settings), settings.owner_role
    is_backend = is_owned_by_backend(connection, names.ingest)
    if is_backend and not is_migrated(connection):
        contracts, reader = contracts if has_choice else ["ingest"], find_owner(connection, names.ingest)
    elif not has_choice:
        installed = installed_contracts(connection, names)
        contracts = [name for name in contracts if name in installed or (is_backend and name == "ingest")]
    invariants = select_invariants(contracts)
    if is_backend and has_contract_event_key(connection, names.ingest):
        invariants = [each for each in invariants if each.name != REBUILD_INVARIANT]
    if not all(has_tables(connection, name, names) for name in contracts):
        raise NotMigrated
    states = [settings.pending_state, settings.processing_state, settings.done_state, settings.failed_state]
    differences = [
        difference
        for name in contracts
        for difference in (
            compare_backend(connection, names.ingest, states)
            if is_backend and name == "ingest"
            else compare(connection, name, names)
        )
    ]
    with step_progress(len(invariants)) as show_step:
        violations = check(
            connection,
            [schema for name in contracts for schema in contract_schemas(name, names)],
            invariants,
            ingest=settings.db_schema,
            done=settings.done_state,
            failed=settings.failed_state,
            reader=reader,
            on_progress=lambda done: show_step(done, next_name(invariants, done)),
        )
    return Findings(contracts, invariants, is_backend, differences, violations)


def format_findings(findings: Findings) -> Iterator[str]:
    """Yield a line for each finding, and the summary."""
    yield from (f"{difference.kind:10} {difference.line}" for difference in findings.differences)
    yield from (f"{each.kind:10} {each.invariant}: {each.offender}" for each in findings.violations)
    broken = sum(each.kind == "broken" for each in findings.violations)
    names = [
        f"{name} (a backend's tables)" if findings.is_backend and name == "ingest" else name
        for name in findings.contracts
    ]
    outcome = f"{len(findings.differences)} differences, {broken} violations"
    yield f"duly: contracts {', '.join(names)}; {len(findings.invariants)} invariants; {outcome}"


def next_name(invariants: Sequence[Invariant], done: int) -> str:
    """Return the name of the invariant that is checked next."""
    return invariants[done].name if done < len(invariants) else ""


def run_print_contract(contract: str | None) -> None:
    """Print what would be checked as one JSON document."""
    settings = load_settings()
    names = names_from_settings(settings)
    document = build_document(
        select_contracts(contract, settings), names, done=settings.done_state, failed=settings.failed_state
    )
    print(json.dumps(document, indent=2))


def select_contracts(contract: str | None, settings: Settings) -> Sequence[str]:
    """Return the contracts to check; an unknown name, or one of an application that is off, is refused first."""
    if contract is None:
        return list_contracts(settings.apps)
    if contract in CONTRACTS and contract not in list_contracts(settings.apps):
        raise Misconfigured(describe_as_off(settings.apps, f"the contract '{contract}'", load_application(contract)))
    contract_lines(contract, names_from_settings(settings))
    return [contract]
