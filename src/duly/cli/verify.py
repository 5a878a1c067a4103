"""`duly verify`: what differs from the contract, and what breaks a law."""

import json
import sys
from dataclasses import asdict

import psycopg

from duly.db.location import open_database
from duly.db.migrate import direct_dsn
from duly.db.migrations import names_of
from duly.errors import NotMigrated, Unavailable
from duly.settings import load_settings
from duly.verify import INVARIANTS, check, compare
from duly.verify.contract import CONTRACTS, contract_lines

__all__ = ["run_verify"]

PROBLEMS_FOUND = 1


def run_verify(contract: str | None, as_json: bool) -> None:
    """Compare and check; exit 0 when all is as written, 1 when something is not."""
    settings = load_settings()
    roles = names_of(settings)
    wanted = [contract] if contract else list(CONTRACTS)
    for name in wanted:
        contract_lines(name, roles)  # a wrong name is refused before anything is opened
    schemas = [schema for name in wanted for schema in CONTRACTS[name]]
    with open_database(settings) as database:
        try:
            with psycopg.connect(direct_dsn(settings, database), autocommit=True) as connection:
                differences = [difference for name in wanted for difference in compare(connection, name, roles)]
                offences = check(connection, schemas)
        except psycopg.OperationalError as error:
            raise Unavailable(f"the database did not answer: {error}") from None
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise NotMigrated("this database does not have duly's tables yet; make them with: duly migrate") from None
    if as_json:
        found = {"differences": differences, "offences": offences}
        print(json.dumps({kind: [asdict(each) for each in several] for kind, several in found.items()}))
    else:
        for difference in differences:
            print(f"{difference.kind:10} {difference.line}")
        for offence in offences:
            print(f"{'broken':10} {offence.invariant}: {offence.offender}")
        outcome = f"{len(differences)} differences, {len(offences)} offences"
        print(f"duly: contracts {', '.join(wanted)}; {len(INVARIANTS)} invariants; {outcome}")
    if differences or offences:
        sys.exit(PROBLEMS_FOUND)
