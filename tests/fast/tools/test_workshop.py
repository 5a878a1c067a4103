"""`duly test` and `duly check`: what they touch and what they refuse."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from duly.launcher import CORE, EXTRAS, ROOT, parse_lock
from tests.support.processes import PYTHON
from tests.support.small_project import PACKAGES, SMALL_PYPROJECT, make_project
from tools.commands.lock import HEADER, by_requirement, find_lock_problems, render, with_pins, without_pins


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with our lock and pyproject.toml, nothing else."""
    for name in ("requirements.lock", "pyproject.toml", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def test_lock_files_have_no_problems(checkout: Path) -> None:
    assert find_lock_problems(checkout) == []


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("requirements.lock", "--index-url https://index.example/simple"),
        ("requirements.lock", "duly @ git+ssh://host/duly.git"),
        ("requirements.lock", "--find-links /somewhere"),
        ("requirements.lock", "--trusted-host index.example"),
        ("a b.lock", "https://index.example/simple"),
        ("web/pnpm-lock.yaml", "tarball: https://registry.example/x.tgz"),
        ("package-lock.json", '{"resolved": "https://registry.example/x.tgz"}'),
        ("requirements-dev.txt", "-i https://index.example/simple"),
    ],
)
def test_url_in_a_lock_file_is_found(file: str, line: str, checkout: Path) -> None:
    (checkout / file).parent.mkdir(exist_ok=True)
    with (checkout / file).open("a") as lock:
        lock.write(f"\n{line}\n")
    assert find_lock_problems(checkout)[0].startswith(f"{file} contains a URL")


def test_ignored_lock_files_are_not_checked(checkout: Path) -> None:
    (checkout / "uv.lock").write_text('url = "https://index.example/simple"')
    assert find_lock_problems(checkout) == []


def test_pins_that_differ_from_the_lock_are_found(checkout: Path) -> None:
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"psycopg==', '"psycopg==0.'))
    assert find_lock_problems(checkout) == ["requirements.lock and the pins in pyproject.toml differ; run ./duly lock"]


def test_a_dependency_that_is_not_locked_is_found(checkout: Path) -> None:
    pyproject = checkout / "pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace('"uv>=', '"something-new",\n    "uv>='))
    problem = "pyproject.toml requires something-new, which is not in the lock; run ./duly lock"
    assert find_lock_problems(checkout) == [problem]


def test_lock_file_matches_its_generator() -> None:
    text = (ROOT / "requirements.lock").read_text()
    entries = list(parse_lock(text))
    needs = {
        group: by_requirement(entry for groups, entry in entries if group in groups or CORE in groups)
        for group in (CORE, *EXTRAS)
    }
    assert HEADER + render(by_requirement(entry for _, entry in entries), needs) == text


def test_pins_can_be_removed_and_restored() -> None:
    pyproject = (ROOT / "pyproject.toml").read_text()
    everything = by_requirement(entry for _, entry in parse_lock((ROOT / "requirements.lock").read_text()))
    plain = without_pins(pyproject)
    assert "psycopg==" not in plain
    assert with_pins(plain, everything) == with_pins(pyproject, everything) == pyproject


def test_a_lock_without_hashes_is_not_written(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (project.root / "pyproject.toml").write_text(SMALL_PYPROJECT)
    for group in PACKAGES:
        project.wheel(group, "1.0")  # found as files, for which uv knows no hash
    before = (project.root / "requirements.lock").read_text()
    program = "from tools.commands.lock import write_locks; write_locks(upgrade=False, as_json=True)"
    environment = project.environment(PYTHONPATH=f"{project.root / 'src'}:{ROOT}")
    result = subprocess.run([*PYTHON, "-c", program], env=environment, capture_output=True, text=True)
    assert "gives no hashes for small-core==1.0" in result.stderr
    assert (project.root / "requirements.lock").read_text() == before


@pytest.fixture
def ci(tmp_path: Path) -> Path:
    """`.ci/run` around a `./duly` whose outcome a test decides."""
    (tmp_path / ".ci").mkdir()
    for name in ("run", "packages", "closing_line"):
        shutil.copy(ROOT / ".ci" / name, tmp_path / ".ci")
    (tmp_path / "duly").write_text(
        "#!/bin/sh\n"
        'echo "called: $*"\n'
        '[ "$1" = check ] && exit "${CHECKS:-0}"\n'
        'echo "=== 3 passed in 0.12s ==="; echo "something after it"; exit "${TESTS:-0}"\n'
    )
    (tmp_path / "duly").chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(("checks", "tests"), [("0", "0"), ("1", "0"), ("0", "1")])
def test_ci_passes_only_if_every_step_did_and_ends_with_pytests_summary(checks: str, tests: str, ci: Path) -> None:
    programs = ci / "programs"  # no apt-get on this PATH: it goes on without
    programs.mkdir()
    for tool in ("bash", "sh", "dirname", "id", "mktemp", "tee", "rm"):
        (programs / tool).symlink_to(shutil.which(tool) or "/bin/false")
    (programs / "python3").symlink_to(sys.executable)
    environment = {"PATH": str(programs), "CHECKS": checks, "TESTS": tests}
    ran = subprocess.run([programs / "bash", ci / ".ci" / "run"], env=environment, capture_output=True, text=True)
    lines = ran.stdout.splitlines()
    called = [line for line in lines if line.startswith("called: ")]
    assert called == ["called: check", "called: test", "called: test --rest", "called: test --gate"]
    assert re.fullmatch(r"===== 9 passed in \d+\.00s =====", lines[-1])  # of three stages
    assert (ran.returncode == 0) == (checks == tests == "0")
