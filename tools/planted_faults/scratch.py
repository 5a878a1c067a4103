"""Plant faults in a scratch clone of the checkout, with an environment of its own, and run the tests there.

    /tmp/duly-faults-x/duly          git clone of HEAD: its own src, tests and caches
    /tmp/duly-faults-x/duly/.venv    the checkout's environment by hard links, pointed at the clone's own src

Nothing of the checkout is written to: what the clone must change in its environment is unlinked first.
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

PLACE = "/tmp"  # noqa: S108 (a directory of our own is made there)
MAX_PER_FILE = 6
GRACE_SECONDS = 30.0  # for pytest to remove its servers and directories before it is killed
TESTED = ("src", "tests", "tools/run_tests.py")  # what the clone takes from HEAD, and the result depends on
# Tests that compare texts with committed ones notice every change, and so tell nothing of what it breaks.
BY_BEHAVIOUR = " and ".join(
    f"not {name}"
    for name in ("are_the_committed_one", "is_the_committed_one", "a_fresh_database_is_what_the_contract_says")
)
OPTIONS = ("-x", "-q", "--maxfail=1", "-p", "no:cacheprovider", "-k", BY_BEHAVIOUR)
NOT_FOR_THE_CLONE = (
    *("DULY_UPDATE_GOLDEN", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"),
    *("PYTEST_ADDOPTS", "PYTHONPATH", "PY_COLORS", "VIRTUAL_ENV"),
)


class Refused(Exception):
    """Nothing was planted; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of tests ended."""

    is_green: bool
    by: str  # the first failing test, or what else went wrong
    seconds: float
    tail: str = ""


# The faults -----------------------------------------------------------------------------------------------------------


def problems_of(root: Path, faults: Sequence[Fault]) -> list[str]:
    """List what keeps faults from being planted below this root: texts that moved, files that would not compile."""
    problems = [
        f"{name}: this id is used twice" for name, times in Counter(fault.id for fault in faults).items() if times > 1
    ]
    crowded = Counter(fault.file for fault in faults)
    problems += [
        f"{file}: {times} faults, at most {MAX_PER_FILE}" for file, times in crowded.items() if times > MAX_PER_FILE
    ]
    return problems + [f"{fault.id}: {problem}" for fault in faults if (problem := problem_of(root, fault))]


def problem_of(root: Path, fault: Fault) -> str | None:
    """Say why one fault cannot be planted, if it cannot."""
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
    """Plant a fault while the body runs; before and after, nothing compiled of the file is left."""
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
    """Refuse a checkout whose source or tests differ from HEAD, of which the clone is made."""
    if changed := git(root, "status", "--porcelain", "--", *TESTED).splitlines():
        raise Refused(
            f"{len(changed)} changes below {', '.join(TESTED)} are not committed, and the clone is made of HEAD; "
            f"commit or stash them, the first is: {changed[0]}"
        )


def commit_of(root: Path) -> str:
    """Return the commit that is tested."""
    return git(root, "rev-parse", "HEAD").strip()


@contextmanager
def scratch_clone(root: Path) -> Generator[Path, None, None]:
    """Make a clone with an environment of its own; it is removed however the body ends."""
    place = Path(tempfile.mkdtemp(prefix="duly-faults-", dir=PLACE))
    try:
        place.chmod(0o755)  # as root, the account of an embedded server must be able to enter
        clone = place / "duly"
        git(root, "clone", "--quiet", str(root), str(clone))
        link_environment(root / ".venv", clone)
        yield clone
    finally:
        shutil.rmtree(place, ignore_errors=True)


def link_environment(environment: Path, clone: Path) -> None:
    """Give the clone the checkout's environment by hard links, and let it import the clone's own source."""
    installed, own = environment / "duly" / "all", clone / ".venv"
    if not installed.exists() or installed.read_bytes() != (clone / "requirements.lock").read_bytes():
        raise Refused(f"{environment} is not what requirements.lock of HEAD says; run ./duly check, then try again")
    if subprocess.run(["cp", "-al", str(environment), str(own)]).returncode:
        raise Refused(f"{environment} cannot be hard-linked into {PLACE}; both must be on one file system")
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
        raise Refused(f"the clone imports duly from {found.stdout.strip() or 'nowhere'}\n{found.stderr}")


def replace(path: Path, text: str) -> None:
    """Write a file in the place of a hard link, which the checkout keeps as it is."""
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
    """Return our environment without what would lead out of the clone, or make tests accept anything."""
    return {name: value for name, value in os.environ.items() if name not in NOT_FOR_THE_CLONE}


# The tests ------------------------------------------------------------------------------------------------------------


def run_tests(clone: Path, arguments: Sequence[str], limit_seconds: float) -> Outcome:
    """Run `./duly test` in the clone until the first failure; what takes longer than the limit is ended, and red."""
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
            return Outcome(False, f"no end within {limit_seconds / 60:.0f} minutes", time.monotonic() - began)
        finally:
            end_group(process)
        return outcome_of(status, output, time.monotonic() - began)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End the tests and all they started: politely, so that they remove what they made, and then at once."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def outcome_of(status: int, output: IO[str], seconds: float) -> Outcome:
    """Read how the tests ended from the exit status and from pytest's short summary."""
    if status == 0:
        return Outcome(True, "", seconds)
    output.seek(0)
    lines = output.read().splitlines()
    failed = next((line for line in lines if line.startswith(("FAILED ", "ERROR "))), None)
    by = failed.partition(" ")[2].partition(" - ")[0] if failed else f"exit status {status}"
    return Outcome(False, by, seconds, "\n".join(lines[-40:]))
