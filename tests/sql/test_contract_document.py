"""`duly verify --print-contract`: a document from which a reader that knows nothing of ours can check a database."""

import json
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from duly.db.migrations import Names
from duly.delivery import OUTBOX_MACHINE
from duly.delivery.machine import NOTIFICATION_MACHINE
from duly.ingest.machine import CAPTURE_MACHINE
from duly.kernel.machine import Machine
from duly.ledger.machine import JOB_MACHINE
from duly.posts.machine import POST_MACHINE
from duly.scheduler.machine import RUN_MACHINE, SCHEDULE_MACHINE
from duly.verify.contract import CONTRACTS, contract_lines
from duly.verify.document import document_of, parse_line
from duly.verify.invariants import INVARIANTS
from duly.verify.machines import DRAWN
from tests.support.processes import PYTHON, plain_environment
from tests.support.psql import psql

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
    nowhere = {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere", **environment}
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
    for law in [*document["invariants"], *(law for each in document["contracts"] for law in each["invariants"])]:
        for (offender,) in connection.execute(law["sql"].encode()):
            yield f"{law['name']}: {offender}"


def differing_columns(contract: dict[str, Any], connection: Admin) -> Iterator[str]:
    """Columns that are missing, too many, or of another type."""
    wanted = {
        (line["name"], line["nullable"], line["type"]) for line in contract["catalogue"] if line["kind"] == "column"
    }
    rows = connection.execute(COLUMNS.replace("%I", "%%I"), {"schemas": contract["schemas"]})
    found = {tuple(row) for row in rows if not row[0].endswith(".version_num")}
    yield from (f"missing {name}" for name, _, _ in wanted - found)
    yield from (f"unexpected {name}" for name, _, _ in found - wanted)


def strange_states(contract: dict[str, Any], connection: Admin) -> Iterator[str]:
    """Rows in a state that is not drawn."""
    for machine in contract["machines"]:
        statement = f"select distinct {machine['column']}::text from {machine['table']}"
        for (state,) in connection.execute(statement.encode()):
            if state not in machine["states"]:
                yield f"{machine['table']} has rows that are {state}"


def test_another_reader_finds_nothing_in_a_database_in_order(document: dict[str, Any], admin: Admin) -> None:
    assert list(read(document, admin)) == []


def test_another_reader_finds_what_was_planted(document: dict[str, Any], admin: Admin) -> None:
    admin.execute("alter table duly.workers alter column pid type integer")
    admin.execute("alter table ledger.job drop column stage")
    admin.execute("alter table posts.posts add extra text")
    admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload) values ('console', 'anna', 'reminder', '{}')"
    )
    admin.execute("update duly.outbox set starts = 3")
    found = list(read(document, admin))
    for words in ("missing duly.workers.pid", "unexpected duly.workers.pid", "missing ledger.job.stage"):
        assert words in found
    assert "unexpected posts.posts.extra" in found
    assert [each for each in found if each.startswith("messages_started_as_often_as_their_log_tells: message ")]


def test_psql_runs_every_law_as_it_stands(document: dict[str, Any], database: str, tmp_path: Path) -> None:
    laws = [*document["invariants"], *(law for each in document["contracts"] for law in each["invariants"])]
    file = tmp_path / "laws.sql"
    file.write_text("\n\n".join(law["sql"] for law in laws))
    assert psql(database, "-f", str(file)) == []
    assert {law["name"] for law in laws} == {law.name for law in INVARIANTS}
    assert all(law["law"] for law in laws)


# What stands in it ----------------------------------------------------------------------------------------------------


def test_the_document_says_of_which_revision_it_is(document: dict[str, Any], admin: Admin) -> None:
    assert document["format"] == 1
    (revision,) = admin.execute("select version_num from duly.alembic_version").fetchone() or [None]
    assert document["revision"] == revision


def test_no_word_of_a_contract_is_lost() -> None:
    for contract in CONTRACTS:
        for line in contract_lines(contract):
            parts = parse_line(line)
            said = {f"{parts['kind']} {parts['definition']}", f"{parts['kind']} {parts['name']} {parts['definition']}"}
            assert line in said


def test_names_of_a_catalogue_are_one_of_a_kind(document: dict[str, Any]) -> None:
    several = {"begin", "edge", "grant"}  # a state has many edges, a thing many grants
    for contract in document["contracts"]:
        names = [(line["kind"], line["name"]) for line in contract["catalogue"] if line["kind"] not in several]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_the_machines_are_drawn_as_they_are(machine: Machine, document: dict[str, Any]) -> None:
    (drawn,) = [each for one in document["contracts"] for each in one["machines"] if each["name"] == machine.name]
    assert drawn["table"] == ".".join(machine.table)
    assert drawn["column"] == machine.state
    assert drawn["log"] == machine.log.table
    assert set(drawn["states"]) == set(machine.states())
    assert set(drawn["begin"]) == set(machine.initial)
    assert {tuple(edge) for edge in drawn["edges"]} == {
        (before, after) for before, several in machine.edges.items() for after in several
    }
    if machine.held and machine.owner:
        assert machine.held in drawn["stays"]


def test_every_machine_is_drawn() -> None:
    assert set(DRAWN) == {machine.name for machine in MACHINES}


def test_one_contract_alone_and_names_of_this_installation() -> None:
    answer = printed("--contract", "ingest", DB_SCHEMA="days", DULY_OWNER_ROLE="boss")
    alone = json.loads(answer.stdout)
    (contract,) = alone["contracts"]
    assert (contract["name"], contract["schemas"]) == ("ingest", ["days"])
    assert {machine["table"] for machine in contract["machines"]} == {
        "days.capture_session",
        "days.schedule_notification",
    }
    text = json.dumps(alone)
    assert "schedule_ingest" not in text
    assert "owner boss" in text
    assert printed("--contract", "nothing").returncode == 2


def test_the_document_is_the_same_from_python(document: dict[str, Any]) -> None:
    assert json.loads(json.dumps(document_of(list(CONTRACTS), Names()))) == document
