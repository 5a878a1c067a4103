"""Plant faults in a scratch clone of the checkout, with an environment of its own, and run the tests there.

    /tmp/duly-faults-x/duly          git clone of a commit: its own src, tests and caches
    /tmp/duly-faults-x/duly/.venv    the checkout's environment by hard links, pointed at the clone's own src

The checkout is not written to: hard links that the clone must change are replaced by copies first.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.planted_faults.faults import Fault

PARENT_DIRECTORY = "/tmp"  # noqa: S108 (a private directory is created there)
MAX_PER_FILE = 6
GRACE_SECONDS = 30.0  # for pytest to remove its servers and directories before it is killed
TESTED = ("src", "tests", "tools/run_tests.py")  # what the clone takes from HEAD, and the result depends on
# Tests that compare rendered files with their sources fail for every change, so they prove nothing here.
BY_BEHAVIOUR = "not golden"
OPTIONS = ("-x", "-q", "--maxfail=1", "-p", "no:cacheprovider", "-m", BY_BEHAVIOUR)
WRONG_COMMAND, WRONG_PATH = "error: unrecognized arguments", "ERROR: file or directory not found"
NOT_FOR_THE_CLONE = (
    *("DULY_UPDATE_GOLDEN", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"),
    *("PYTEST_ADDOPTS", "PYTHONPATH", "PY_COLORS", "VIRTUAL_ENV"),
)


class Refused(Exception):
    """Nothing was planted; the message states the reason and the fix."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of tests ended."""

    is_green: bool
    by: str  # the first failing test, or what else went wrong
    seconds: float
    tail: str = ""
    status: int = 0  # of pytest


# The faults -----------------------------------------------------------------------------------------------------------


def find_problems(root: Path, faults: Sequence[Fault]) -> list[str]:
    """List the problems that prevent faults from being planted: texts that moved, files that would not compile."""
    problems = [
        f"{name}: this id is used twice" for name, times in Counter(fault.id for fault in faults).items() if times > 1
    ]
    crowded = Counter(fault.file for fault in faults)
    problems += [
        f"{file}: {times} faults, at most {MAX_PER_FILE}" for file, times in crowded.items() if times > MAX_PER_FILE
    ]
    return problems + [f"{fault.id}: {problem}" for fault in faults if (problem := find_problem(root, fault))]


def find_problem(root: Path, fault: Fault) -> str | None:
    """Return the reason why a fault cannot be planted, or None."""
    if not (root / fault.file).is_file():
        return f"there is no {fault.file}"
    text = (root / fault.file).read_text()
    if (times := text.count(fault.old)) != 1:
        return f"its text occurs {times} times in {fault.file}, not once"
    if fault.old == fault.new:
        return "it changes nothing"
    if fault.file.endswith(".py"):
        try:
            compile(text.replace(fault.old, fault.new), fault.file, "exec")
        except SyntaxError as error:
            return f"{fault.file} would not compile: {error}"
    return None


@contextmanager
def plant(clone: Path, fault: Fault) -> Generator[None, None, None]:
    """Plant a fault while the body runs; remove compiled files before and after."""
    path = clone / fault.file
    path.write_text(path.read_text().replace(fault.old, fault.new))
    forget_compiled(path)
    try:
        yield
    finally:
        git(clone, "checkout", "--quiet", "--", fault.file)
        forget_compiled(path)


def forget_compiled(path: Path) -> None:
    """Remove what Python and pytest cached of a file: they compare whole seconds and sizes, which may be the same."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink(missing_ok=True)


# The clone ------------------------------------------------------------------------------------------------------------


def refuse_changes(root: Path) -> None:
    """Refuse a checkout whose source or tests differ from HEAD, because the clone is made from HEAD."""
    if changed := git(root, "status", "--porcelain", "--", *TESTED).splitlines():
        raise Refused(
            f"{len(changed)} changes below {', '.join(TESTED)} are not committed, and the clone is made from HEAD; "
            f"commit or stash them; the first is: {changed[0]}"
        )


def find_commit(root: Path, name: str) -> str:
    """Return the commit of this name."""
    return git(root, "rev-parse", "--verify", f"{name}^{{commit}}").strip()


@contextmanager
def scratch_clone(root: Path, commit: str) -> Generator[Path, None, None]:
    """Make a clone of a commit with its own environment; remove it when the body ends or fails."""
    directory = Path(tempfile.mkdtemp(prefix="duly-faults-", dir=PARENT_DIRECTORY))
    try:
        directory.chmod(0o755)  # as root, the account of an embedded server must be able to enter
        clone = directory / "duly"
        git(root, "clone", "--quiet", "--no-checkout", str(root), str(clone))
        git(clone, "checkout", "--quiet", "--detach", commit)
        link_environment(root / ".venv", clone)
        yield clone
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def link_environment(environment: Path, clone: Path) -> None:
    """Hard-link the environment of the checkout into the clone, and make it import the source of the clone."""
    installed, own = environment / "duly" / "all", clone / ".venv"
    if not installed.exists() or installed.read_bytes() != (clone / "requirements.lock").read_bytes():
        raise Refused(f"{environment} does not match requirements.lock of the commit; run ./duly check, then try again")
    if subprocess.run(["cp", "-al", str(environment), str(own)]).returncode:
        raise Refused(f"{environment} cannot be hard-linked into {PARENT_DIRECTORY}; both must be on one file system")
    shutil.rmtree(own / "duly")
    shutil.copytree(environment / "duly", own / "duly")  # the launcher writes into these files
    for link in own.glob("lib/python3.*/site-packages/duly-launcher.pth"):
        replace(link, os.path.relpath(clone / "src", link.parent) + "\n")
    for script in (each for each in (own / "bin").iterdir() if each.is_file() and not each.is_symlink()):
        if (text := script.read_bytes()).startswith(b"#!" + bytes(environment)):
            replace(script, text.decode().replace(str(environment), str(own), 1))
    command = [own / "bin" / "python", "-P", "-c", "import duly; print(duly.__file__)"]
    found = subprocess.run(command, cwd=clone, env=environment_variables(), capture_output=True, text=True)
    if not found.stdout.startswith(str(clone / "src")):
        raise Refused(f"the clone imports duly from {found.stdout.strip() or 'an unknown path'}\n{found.stderr}")


def replace(path: Path, text: str) -> None:
    """Replace a hard link by a file with this text; the file of the checkout stays unchanged."""
    mode = path.stat().st_mode
    path.unlink()
    path.write_text(text)
    path.chmod(mode)


def git(root: Path, *arguments: str) -> str:
    """Run git in a checkout and return what it prints."""
    ran = subprocess.run(["git", *arguments], cwd=root, env=environment_variables(), capture_output=True, text=True)
    if ran.returncode:
        raise Refused(f"git {arguments[0]} failed: {ran.stderr.strip()}")
    return ran.stdout


def environment_variables() -> dict[str, str]:
    """Return the environment without variables that point outside the clone or change test results."""
    return {name: value for name, value in os.environ.items() if name not in NOT_FOR_THE_CLONE}


# The tests ------------------------------------------------------------------------------------------------------------


def run_tests(clone: Path, arguments: Sequence[str], limit_seconds: float) -> Outcome:
    """Run `./duly test` in the clone until the first failure; a run over the time limit counts as failed."""
    began = time.monotonic()
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            ["./duly", "test", *arguments, *OPTIONS],
            cwd=clone,
            env=environment_variables(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_seconds)
        except subprocess.TimeoutExpired:
            return Outcome(False, f"timed out after {limit_seconds / 60:.0f} minutes", time.monotonic() - began)
        finally:
            end_group(process)
        return parse_outcome(status, output, time.monotonic() - began)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Stop the tests and their processes: first with SIGINT, so that they clean up, then with SIGKILL."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def parse_outcome(status: int, output: IO[str], seconds: float) -> Outcome:
    """Read how the tests ended from the exit status and from pytest's short summary."""
    if status == 0:
        return Outcome(True, "", seconds)
    output.seek(0)
    lines = output.read().splitlines()
    if wrong := next((line for line in lines if WRONG_COMMAND in line or line.startswith(WRONG_PATH)), None):
        raise Refused(f"no test ran: {wrong}")
    failed = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), None)
    by = failed.partition(" ")[2].partition(" - ")[0] if failed else f"exit status {status}"
    return Outcome(False, by, seconds, "\n".join(lines[-40:]), status)
