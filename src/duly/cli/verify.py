"""`duly verify`: what differs from the contract, and what breaks a law."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

import psycopg

from duly.cli.opening import open_existing
from duly.cli.watching import teller
from duly.db.migrate import direct_dsn
from duly.db.migrations import Names, names_of
from duly.db.pool import with_keepalive
from duly.errors import NotMigrated, Unavailable
from duly.settings import load_settings
from duly.verify import Invariant, check, compare, invariants_of
from duly.verify.backend import compare_backend, find_owner, has_owners_key, is_backends, is_migrated
from duly.verify.contract import CONTRACTS, contract_lines, has_tables, schemas_of
from duly.verify.document import document_of
from duly.wiring import states_of

__all__ = ["run_print_contract", "run_verify"]

PROBLEMS_FOUND = 1
REBUILDING = "events_rebuild_their_day"  # where the owner's key of events may refuse one, they need not


def run_verify(contract: str | None, as_json: bool) -> None:
    """Compare and check; exit 0 when all is as written, 1 when something is not."""
    settings = load_settings()
    roles = names_of(settings)
    wanted = wanted_of(contract, roles)
    with open_existing(settings) as database:
        try:
            with psycopg.connect(with_keepalive(direct_dsn(settings, database)), autocommit=True) as connection:
                is_owned, reader = is_backends(connection, roles.ingest), settings.owner_role
                if is_owned and not is_migrated(connection):
                    wanted, reader = wanted if contract else ["ingest"], find_owner(connection, roles.ingest)
                schemas = [schema for name in wanted for schema in schemas_of(name, roles)]
                invariants = invariants_of(wanted)
                if is_owned and has_owners_key(connection, roles.ingest):
                    invariants = [each for each in invariants if each.name != REBUILDING]
                if not all(has_tables(connection, name, roles) for name in wanted):
                    raise NotMigrated("this database does not have duly's tables yet; make them with: duly migrate")
                states = vars(states_of(settings)).values()
                differences = [
                    difference
                    for name in wanted
                    for difference in (
                        compare_backend(connection, roles.ingest, list(states))
                        if is_owned and name == "ingest"
                        else compare(connection, name, roles)
                    )
                ]
                with teller(len(invariants)) as tell:
                    offences = check(
                        connection,
                        schemas,
                        invariants,
                        ingest=settings.db_schema,
                        done=settings.done_state,
                        failed=settings.failed_state,
                        reader=reader,
                        watch=lambda done: tell(done, next_of(invariants, done)),
                    )
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None
    if as_json:
        found = {"differences": differences, "offences": offences}
        print(json.dumps({kind: [asdict(each) for each in several] for kind, several in found.items()}))
    else:
        for difference in differences:
            print(f"{difference.kind:10} {difference.line}")
        for offence in offences:
            print(f"{offence.kind:10} {offence.invariant}: {offence.offender}")
        broken = sum(offence.kind == "broken" for offence in offences)
        outcome = f"{len(differences)} differences, {broken} offences"
        names = [f"{name} (a backend's tables)" if is_owned and name == "ingest" else name for name in wanted]
        print(f"duly: contracts {', '.join(names)}; {len(invariants)} invariants; {outcome}")
    # Laws about what only duly's own tables have cannot be asked of a backend's: that is no problem of theirs.
    if differences or any(offence.kind == "broken" or not is_owned for offence in offences):
        sys.exit(PROBLEMS_FOUND)


def next_of(invariants: Sequence[Invariant], done: int) -> str:
    """The law that comes when so many were looked at."""
    return invariants[done].name if done < len(invariants) else ""


def run_print_contract(contract: str | None) -> None:
    """Print what is to be checked, instead of checking it: one JSON document."""
    settings = load_settings()
    names = names_of(settings)
    document = document_of(wanted_of(contract, names), names, done=settings.done_state, failed=settings.failed_state)
    print(json.dumps(document, indent=2))


def wanted_of(contract: str | None, names: Names) -> Sequence[str]:
    """The contracts that are asked for; a wrong name is refused before anything is opened."""
    wanted = [contract] if contract else list(CONTRACTS)
    for name in wanted:
        contract_lines(name, names)
    return wanted
