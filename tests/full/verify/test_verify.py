"""`duly verify` finds what was planted, and nothing in a database that is in order."""

import json
import subprocess

import psycopg
import pytest

from duly.apps.ingest.hashes import VERSIONS_HAVE_THEIR_HASH
from duly.verify import INVARIANTS, check
from duly.verify.contract import CONTRACTS
from tests.fast.verify.test_verify import SCHEMAS, Admin, admin
from tests.support.invariants import broken_in
from tests.support.plants import PLANTED_OFFENCES, laws_of
from tests.support.processes import PYTHON, plain_environment
from tests.support.terminal import Watched

__all__ = ["admin"]

pytestmark = pytest.mark.lawless  # violations are planted


@pytest.mark.parametrize("planted", PLANTED_OFFENCES)
def test_a_planted_violation_is_caught(planted: str, admin: Admin) -> None:
    admin.execute(PLANTED_OFFENCES[planted].encode())
    offences = check(admin, SCHEMAS)
    assert {offence.invariant for offence in offences} == laws_of(planted), offences
    asked_in_sql = laws_of(planted) - {VERSIONS_HAVE_THEIR_HASH}
    assert {law for law, _ in broken_in(admin)} == asked_in_sql, "what is asked after a test misses it"


def test_the_full_command_ends_beside_a_session_that_blocks_all_writers(database: str) -> None:
    schemas = [schema for several in CONTRACTS.values() for schema in several]
    with psycopg.connect(database) as busy:
        tables = busy.execute(
            "select format('%%I.%%I', n.nspname, c.relname) from pg_class as c"
            " join pg_namespace as n on n.oid = c.relnamespace where n.nspname = any (%s) and c.relkind in ('r', 'p')",
            [schemas],
        ).fetchall()
        assert {"duly.outbox", "ledger.job", "posts.posts", "scheduler.job_runs"} <= {name for (name,) in tables}
        busy.execute(f"lock table {', '.join(name for (name,) in tables)} in exclusive mode".encode())
        answer = run_verify(database)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "0 differences, 0 offences" in answer.stdout


def run_verify(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=database)
    return subprocess.run(
        [*PYTHON, "-m", "duly", "verify", *arguments], env=environment, capture_output=True, text=True
    )


def test_the_command_says_what_it_found_and_exits_by_it(database: str) -> None:
    fine = run_verify(database)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "0 differences, 0 offences" in fine.stdout
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("drop index duly.idx_transition__ts")
    bad = run_verify(database, "--contract", "duly", "--json")
    assert bad.returncode == 1
    assert "idx_transition__ts" in json.loads(bad.stdout)["differences"][0]["line"]
    assert run_verify(database, "--contract", "nothing").returncode == 2


def test_progress_shows_the_invariant_that_is_checked(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, TERM="xterm", COLUMNS="200")
    with Watched([*PYTHON, "-m", "duly", "verify"], environment) as screen:
        screen.read_until(f"/{len(INVARIANTS)}")
        screen.read_until("0 offences")
