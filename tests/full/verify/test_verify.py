"""`duly verify` finds what was planted, and nothing in a database that is in order."""

import json
import subprocess

import psycopg
import pytest

from duly.verify import INVARIANTS, check
from duly.verify.contract import CONTRACTS
from tests.fast.verify.test_verify import SCHEMAS, Admin, admin
from tests.support.invariants import find_violations
from tests.support.planted_violations import PLANTED_VIOLATIONS, violated_invariants
from tests.support.processes import PYTHON, plain_environment
from tests.support.terminal import TerminalProgram

__all__ = ["admin"]

pytestmark = pytest.mark.breaks_invariants  # violations are planted


@pytest.mark.parametrize("planted", PLANTED_VIOLATIONS)
def test_check_reports_a_planted_violation(planted: str, admin: Admin) -> None:
    admin.execute(PLANTED_VIOLATIONS[planted].encode())
    violations = check(admin, SCHEMAS)
    assert {violation.invariant for violation in violations} == violated_invariants(planted), violations
    checked_in_sql = violated_invariants(planted) - {"versions_have_their_hash"}
    assert {invariant for invariant, _ in find_violations(admin)} == checked_in_sql, (
        "what is asked after a test misses it"
    )


def test_verify_finishes_beside_a_session_that_blocks_all_writers(database: str) -> None:
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
    assert "0 differences, 0 violations" in answer.stdout


def run_verify(database: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=database)
    return subprocess.run(
        [*PYTHON, "-m", "duly", "verify", *arguments], env=environment, capture_output=True, text=True
    )


def test_verify_prints_violations_and_sets_the_exit_status(database: str) -> None:
    fine = run_verify(database)
    assert (fine.returncode, fine.stderr) == (0, "")
    assert "0 differences, 0 violations" in fine.stdout
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute("drop index duly.idx_transition__ts")
    bad = run_verify(database, "--contract", "duly", "--json")
    assert bad.returncode == 1
    assert "idx_transition__ts" in json.loads(bad.stdout)["differences"][0]["line"]
    assert run_verify(database, "--contract", "nothing").returncode == 2


def test_verify_shows_the_invariant_being_checked_as_progress(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, TERM="xterm", COLUMNS="200")
    with TerminalProgram([*PYTHON, "-m", "duly", "verify"], environment) as screen:
        screen.read_until(f"/{len(INVARIANTS)}")
        screen.read_until("0 violations")
