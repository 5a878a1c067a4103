"""`duly verify --print-contract`: a document from which a reader that knows nothing of ours can check a database."""

import json
import subprocess
from collections.abc import Generator, Iterator
from typing import Any

import psycopg
import pytest

from duly.db.migrate import branch_revisions
from duly.db.migrations import Names
from duly.verify.contract import CONTRACTS, contract_lines
from duly.verify.document import build_document, parse_line
from duly.verify.machines import CONTRACT_MACHINES
from tests.support.processes import PYTHON, plain_environment
from tools.state_machines.ingest import CAPTURE_MACHINE
from tools.state_machines.jobs import JOB_MACHINE
from tools.state_machines.model import StateMachine
from tools.state_machines.outbox import NOTIFICATION_MACHINE, OUTBOX_MACHINE
from tools.state_machines.posts import POST_MACHINE
from tools.state_machines.scheduler import RUN_MACHINE, SCHEDULE_MACHINE

Admin = psycopg.Connection[Any]
MACHINES = (
    OUTBOX_MACHINE,
    NOTIFICATION_MACHINE,
    CAPTURE_MACHINE,
    JOB_MACHINE,
    POST_MACHINE,
    RUN_MACHINE,
    SCHEDULE_MACHINE,
)


def printed(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What the command prints, where no database can be had."""
    nowhere = {"DATABASE_URL": "postgresql://user@127.0.0.1:1/nowhere", **environment}
    return subprocess.run(
        [*PYTHON, "-m", "duly", "verify", "--print-contract", *arguments],
        env=plain_environment(**nowhere),
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """The whole contract, as the command prints it."""
    answer = printed()
    assert (answer.returncode, answer.stderr) == (0, "")
    return json.loads(answer.stdout)


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """The test's own hand."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


# Another reader -------------------------------------------------------------------------------------------------------
# It has the document and a driver, and nothing of duly.

COLUMNS = """
select format('%I.%I.%I', c.table_schema, c.table_name, c.column_name), c.is_nullable = 'YES',
    format_type(a.atttypid, a.atttypmod)
from information_schema.columns as c
join pg_catalog.pg_attribute as a
    on a.attrelid = format('%I.%I', c.table_schema, c.table_name)::regclass and a.attname = c.column_name
join pg_catalog.pg_class as t on t.oid = a.attrelid and not t.relispartition
where c.table_schema = any (%(schemas)s)
"""


def read(document: dict[str, Any], connection: Admin) -> Iterator[str]:
    """What another reader finds wrong in a database."""
    for contract in document["contracts"]:
        yield from differing_columns(contract, connection)
        yield from strange_states(contract, connection)
    for invariant in [
        *document["invariants"],
        *(invariant for each in document["contracts"] for invariant in each["invariants"]),
    ]:
        for (offender,) in connection.execute(invariant["sql"].encode()):
            yield f"{invariant['name']}: {offender}"


def differing_columns(contract: dict[str, Any], connection: Admin) -> Iterator[str]:
    """Columns that are missing, too many, or of another type."""
    expected_names = {
        (line["name"], line["nullable"], line["type"]) for line in contract["catalogue"] if line["kind"] == "column"
    }
    rows = connection.execute(COLUMNS.replace("%I", "%%I"), {"schemas": contract["schemas"]})
    bookkeeping = ("duly.alembic_version.", "duly.schema_object.")
    found = {tuple(row) for row in rows if not row[0].startswith(bookkeeping)}
    yield from (f"missing {name}" for name, _, _ in expected_names - found)
    yield from (f"unexpected {name}" for name, _, _ in found - expected_names)


def strange_states(contract: dict[str, Any], connection: Admin) -> Iterator[str]:
    """Rows in a state that is not drawn."""
    for machine in contract["machines"]:
        statement = f"select distinct {machine['column']}::text from {machine['table']}"
        for (state,) in connection.execute(statement.encode()):
            if state not in machine["states"]:
                yield f"{machine['table']} has rows that are {state}"


def test_example_reader_of_the_document_finds_no_difference_in_a_sound_database(
    document: dict[str, Any], admin: Admin
) -> None:
    assert list(read(document, admin)) == []


@pytest.mark.breaks_invariants
def test_example_reader_of_the_document_finds_planted_differences(document: dict[str, Any], admin: Admin) -> None:
    admin.execute("alter table duly.workers alter column pid type integer")
    admin.execute("alter table ledger.job drop column stage cascade")
    admin.execute("alter table posts.posts add extra text")
    admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}')"
    )
    admin.execute("update duly.outbox set starts = 3")
    found = list(read(document, admin))
    for expected_text in ("missing duly.workers.pid", "unexpected duly.workers.pid", "missing ledger.job.stage"):
        assert expected_text in found
    assert "unexpected posts.posts.extra" in found
    assert [each for each in found if each.startswith("starts_of_messages_match_their_log: message ")]


# What stands in it ----------------------------------------------------------------------------------------------------


def test_document_contains_its_format_and_revision(document: dict[str, Any], admin: Admin) -> None:
    assert document["format"] == 1
    recorded = [revision for (revision,) in admin.execute("select version_num from duly.alembic_version")]
    assert document["revisions"] == list(branch_revisions(recorded))


def test_parsing_a_contract_line_loses_no_text() -> None:
    for contract in CONTRACTS:
        for line in contract_lines(contract):
            parts = parse_line(line)
            joined = {
                f"{parts['kind']} {parts['definition']}",
                f"{parts['kind']} {parts['name']} {parts['definition']}",
            }
            assert line in joined


def test_catalogue_names_are_unique_per_kind(document: dict[str, Any]) -> None:
    several = {"begin", "edge", "grant"}  # a state has many edges, a thing many grants
    for contract in document["contracts"]:
        names = [(line["kind"], line["name"]) for line in contract["catalogue"] if line["kind"] not in several]
        assert len(names) == len(set(names))


def misdrawn(machine: StateMachine, document: dict[str, Any]) -> Iterator[str]:
    """List where the document draws a machine otherwise than it is."""
    several = [each for one in document["contracts"] for each in one["machines"] if each["name"] == machine.name]
    if len(several) != 1:
        yield f"{machine.name}: drawn {len(several)} times, expected once"
        return
    (drawn,) = several
    edges = {(before, after) for before, afters in machine.edges.items() for after in afters}
    for part, found, expected in (
        ("table", drawn["table"], ".".join(machine.table)),
        ("column", drawn["column"], machine.state),
        ("log", drawn["log"], machine.log.table),
        ("states", set(drawn["states"]), set(machine.states())),
        ("begin", set(drawn["begin"]), set(machine.initial)),
        ("edges", {tuple(edge) for edge in drawn["edges"]}, edges),
    ):
        if found != expected:
            yield f"{machine.name}: {part} is {found}, expected {expected}"
    if machine.leased_state and machine.owner and machine.leased_state not in drawn["stays"]:
        yield f"{machine.name}: {machine.leased_state} is not among those that stay: {drawn['stays']}"


def test_document_contains_the_states_and_edges_of_each_state_machine(document: dict[str, Any]) -> None:
    offenders = [fault for machine in MACHINES for fault in misdrawn(machine, document)]
    assert not offenders, "\n".join(offenders)


def test_document_contains_every_state_machine() -> None:
    assert set(CONTRACT_MACHINES) == {machine.name for machine in MACHINES}


def test_build_document_returns_the_same_document_as_the_command(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(build_document(list(CONTRACTS), Names()))) == document
