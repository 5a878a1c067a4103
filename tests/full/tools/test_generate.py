"""A bound of a job is changed in two places by hand, and `python -m tools.generate` writes the rest."""

import json
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from duly.launcher import ROOT
from duly.testing.databases import TestDatabases
from tests.support.processes import plain_environment

BY_HAND = (  # file, text, new text: the diff that docs/decisions/0041 shows
    ("src/duly/bounds.py", "MAX_ATTEMPTS = 1000\n", "MAX_ATTEMPTS = 50\n"),
    ("docs/api.md", "| 1 to 1000 starts before", "| 1 to 50 starts before"),
)
RENDERED = {
    "src/duly/jobs/guards.sql",
    "src/duly/verify/catalogues/ledger.txt",
    "supabase/migrations/20261115000001_duly_0_1_0_engine.sql",
    "tests/golden/cli/jobs-enqueue.txt",
    "tests/golden/openapi.json",
}
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".duly", "__pycache__", ".*_cache", ".hypothesis")
DECLARE = "import duly; duly.App().job('work', max_attempts=51)"
REQUEST = "from duly.http.job_models import EnqueueRequest as R; R(type='work', max_attempts=51)"
ENQUEUE = (
    "select outcome from ledger.enqueue("
    "org => '00000000-0000-0000-0000-000000000001', type => 'work', max_attempts => %s)"
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


class Checkout:
    """A copy of this checkout, whose own source is imported in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(ROOT, root, ignore=NOT_COPIED)

    def change(self, name: str, old: str, new: str) -> None:
        """Replace a text that occurs once in a file."""
        file = self.root / name
        before = file.read_text()
        assert before.count(old) == 1, f"{name}: {old!r} occurs {before.count(old)} times"
        file.write_text(before.replace(old, new))

    def python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python in the copy."""
        environment = plain_environment(PYTHONPATH=str(self.root / "src"), **variables)
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, env=environment, capture_output=True, text=True
        )

    def differing(self) -> set[str]:
        """List the files that differ from this checkout."""
        names = [path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file()]
        return {
            name.as_posix()
            for name in names
            if not any(part == "__pycache__" or part.startswith(".") for part in name.parts)
            and (ROOT / name).exists()
            and (ROOT / name).read_bytes() != (self.root / name).read_bytes()
        }


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which a job may have 50 attempts at most."""
    checkout = Checkout(tmp_path_factory.mktemp("changed") / "duly")
    for place in BY_HAND:
        checkout.change(*place)
    written = checkout.python("-m", "tools.generate")
    assert written.returncode == 0, written.stdout + written.stderr
    return checkout


@pytest.fixture
def empty(server: str, worker_id: str) -> Generator[str, None, None]:
    """The address of an empty database."""
    databases = TestDatabases(server, f"duly_test_bound_{worker_id}", template="template0")
    with databases.clone(worker_id) as dsn:
        yield dsn


def test_a_bound_takes_at_most_four_places_and_one_command(changed: Checkout, empty: str) -> None:
    """One test, because writing the files takes longer than all that is checked of them."""
    assert len(BY_HAND) <= 4
    assert changed.differing() == {name for name, _, _ in BY_HAND} | RENDERED

    declared = changed.python("-c", DECLARE)
    assert "max_attempts=51 of the job type 'work': must be an integer between 1 and 50" in declared.stderr
    requested = changed.python("-c", REQUEST)
    assert "Input should be less than or equal to 50" in requested.stderr
    document = json.loads((changed.root / "tests" / "golden" / "openapi.json").read_text())
    assert document["components"]["schemas"]["EnqueueRequest"]["properties"]["max_attempts"]["maximum"] == 50
    typed = changed.python("-m", "duly", "jobs", "enqueue", "work", "--max-attempts", "51", COLUMNS="200")
    assert typed.returncode == 2
    assert "less than or equal to 50" in typed.stderr

    migrated = changed.python("-m", "duly", "migrate", DATABASE_URL=empty)
    assert migrated.returncode == 0, migrated.stderr
    with psycopg.connect(empty, autocommit=True) as connection:
        assert connection.execute(ENQUEUE, [50]).fetchone() == ("created",)
        with pytest.raises(psycopg.errors.CheckViolation) as refused:
            connection.execute(ENQUEUE, [51])
    assert refused.value.diag.constraint_name == "ck_job__max_attempts"
    verified = changed.python("-m", "duly", "verify", DATABASE_URL=empty)
    assert verified.returncode == 0, verified.stdout + verified.stderr

    pages = changed.python("-m", "tools.run_tests", "-n0", "tests/fast/docs/test_request_fields.py")
    assert pages.returncode == 0, pages.stdout
