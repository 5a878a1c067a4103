"""Prepares `.venv` from `requirements.lock`, for `./duly` and for an extra that is needed at run time.

    ./duly ...  ->  this file, only when the lock and .venv differ  ->  .venv/bin/python -m duly ...

pip or uv install; this file decides what, when, and whether the result can be trusted. The lock has sections, each
headed by the groups that need it (`# [core]`, `# [ai ocr]`). A checkout always has the groups of `ALWAYS`; the others
are installed when a command needs them. `.venv/duly/<group>` is a copy of the lock that the group was installed from,
written last: equal to the lock means up to date. `.venv/duly/unfinished` exists while an installer runs; where it was
left behind, the environment is built again. An installer that outlives this process keeps its file lock, so that no
other one starts beside it.

Runs before anything is installed: standard library only, and nothing else of duly.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE, ALL = "core", "all"
ALWAYS = (CORE, "apps", "embedded", "server")
EXTRAS = ("ai", "apprise", "apps", "embedded", "ocr", "server", "telegram")
GROUPS = (CORE, *EXTRAS, "dev")
MAX_REPORT_LINES = 25
CHECK_PYTHON = "import sys; sys.version_info >= (3, 11) and print(sys.prefix)"


class SetupFailed(Exception):
    """The environment could not be prepared; the message names the reason and the fix."""


def main(groups: list[str]) -> int:
    """Install groups; return an exit status: 0, or 69 with the reason on stderr."""
    try:
        prepare(ROOT, groups or [CORE])
    except SetupFailed as failure:
        print_status(str(failure))
        return 69
    except KeyboardInterrupt:
        print("\nduly: stopped; the next run starts the setup again", file=sys.stderr)
        return 130
    return 0


def prepare(root: Path, requested: Iterable[str]) -> None:
    """Install the requested groups at the versions of the lock; safe in several processes at once."""
    lock_text = (root / "requirements.lock").read_text()
    environment = Environment(root / ".venv")
    with setup_lock(root) as lock_descriptor:
        environment.discard_if_broken()
        groups = expand_groups(requested) | environment.installed_groups()
        if all(environment.is_current(group, lock_text) for group in groups):
            return
        entries = list(parse_lock(lock_text))
        requirements = [entry for needed_by, entry in entries if needed_by & groups]
        removed = environment.installed_packages() - {package_name(entry) for _, entry in entries}
        environment.create_if_missing()
        with environment.unfinished():
            install(environment, requirements, sorted(removed), lock_descriptor)
            environment.link_source(root / "src")
            for group in groups:
                write_atomically(environment.notes / group, lock_text)


def print_status(message: str) -> None:
    """Print a line to stderr: stdout belongs to the command that follows."""
    print(f"duly: {message}", file=sys.stderr, flush=True)


# Groups and the lock --------------------------------------------------------------------------------------------------


def expand_groups(requested: Iterable[str]) -> frozenset[str]:
    """Return the groups to install: some always; `all` means every group."""
    groups = frozenset(requested)
    if unknown := groups - {ALL, *GROUPS}:
        raise SetupFailed(f"unknown extra: {', '.join(sorted(unknown))}; choose from {', '.join(EXTRAS)}")
    return frozenset({ALL, *GROUPS}) if ALL in groups else groups | {*ALWAYS}


def parse_lock(lock_text: str) -> Iterator[tuple[frozenset[str], str]]:
    """Yield each requirement of a lock, with its hashes, and the groups that need it."""
    groups: frozenset[str] = frozenset()
    for line in lock_text.replace("\\\n", "\\\0").splitlines():  # a requirement and its hashes as one line
        if heading := re.fullmatch(r"# \[([a-z ]+)\]", line):
            groups = frozenset(heading[1].split())
        elif line and not line.startswith("#"):
            yield groups, line.replace("\0", "\n")


def package_name(requirement: str) -> str:
    """Return the name of the package that a requirement is about."""
    return re.split(r"[=; \\]", requirement, maxsplit=1)[0]


def write_atomically(path: Path, text: str) -> None:
    """Replace a file in one step: readers see the old text or the new one."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


@contextlib.contextmanager
def setup_lock(root: Path) -> Generator[int, None, None]:
    """Yield the descriptor of a file lock that allows one process to change `.venv`; others wait for it."""
    import fcntl  # not on Windows, where this file is imported and never prepares anything

    try:
        file = (root / ".venv.lock").open("w")
    except OSError as error:
        raise SetupFailed(f"cannot write to {root}: {error.strerror}; clone into a directory of your own") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print_status("another duly is preparing .venv; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


# The environment ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Environment:
    """The virtual environment at `path`, with our notes in `duly/` inside it."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def notes(self) -> Path:
        return self.path / "duly"

    def is_current(self, group: str, lock_text: str) -> bool:
        """Return whether the group was installed from exactly this lock."""
        note = self.notes / group
        return note.exists() and note.read_text() == lock_text

    def installed_groups(self) -> frozenset[str]:
        """Return the groups that were installed before; they follow when the lock changes."""
        return frozenset(group for group in (ALL, *GROUPS) if (self.notes / group).exists())

    def installed_packages(self) -> frozenset[str]:
        """Return the packages of the lock that was installed last."""
        texts = [(self.notes / group).read_text() for group in self.installed_groups()]
        return frozenset(package_name(entry) for text in texts for _, entry in parse_lock(text))

    def discard_if_broken(self) -> None:
        """Remove an environment whose setup was interrupted, or whose Python is missing or too old."""
        for discarded in self.path.parent.glob(f"{self.path.name}.old-*"):
            shutil.rmtree(discarded, ignore_errors=True)
        if not self.path.exists():
            return
        if (self.notes / "unfinished").exists():
            print_status("the last setup was interrupted; starting it again")
        elif self.has_working_python():
            return
        else:
            print_status("the Python of .venv is missing or too old; building it anew")
        try:
            shutil.rmtree(self.path.rename(f"{self.path}.old-{os.getpid()}"))  # renamed first: never partly removed
        except OSError as error:
            raise SetupFailed(f"cannot replace {self.path}: {error}; remove it and run again") from error

    def has_working_python(self) -> bool:
        """Return whether its Python starts, is new enough, and belongs to this environment."""
        try:
            check = subprocess.run([self.python, "-I", "-c", CHECK_PYTHON], capture_output=True, text=True)
        except OSError:
            return False
        return os.path.realpath(check.stdout.strip() or "/") == os.path.realpath(self.path)

    def create_if_missing(self) -> None:
        """Create an environment without pip, which not every Python can install there."""
        if self.python.exists():
            return
        python = os.path.realpath(sys.executable)
        command = [python, "-I", "-m", "venv", "--without-pip", self.path]
        if subprocess.run(command, capture_output=True).returncode:
            self.create_without_venv(Path(python))

    def create_without_venv(self, python: Path) -> None:
        """Create an environment where Python has no venv module (Debian without python3-venv); PEP 405."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        (self.path / "lib" / version / "site-packages").mkdir(parents=True, exist_ok=True)
        (self.path / "pyvenv.cfg").write_text(f"home = {python.parent}\ninclude-system-site-packages = false\n")
        self.python.parent.mkdir(exist_ok=True)
        for name in ("python", "python3", version):
            with contextlib.suppress(FileExistsError):
                (self.python.parent / name).symlink_to(python)

    @contextlib.contextmanager
    def unfinished(self) -> Generator[None, None, None]:
        """Mark the environment while it is changed; only a crash leaves the mark, and no earlier note stays current."""
        self.notes.mkdir(exist_ok=True)
        mark = self.notes / "unfinished"
        mark.touch()
        for group in self.installed_groups():
            write_atomically(self.notes / group, (self.notes / group).read_text() + "# being replaced\n")
        try:
            yield
        except SetupFailed:
            mark.unlink()
            raise
        mark.unlink()

    def link_source(self, source: Path) -> None:
        """Let the environment import duly from the checkout, by a relative path: the checkout may be moved."""
        for site_packages in self.path.glob("lib/python3.*/site-packages"):
            write_atomically(site_packages / "duly-launcher.pth", os.path.relpath(source, site_packages) + "\n")


# pip and uv -----------------------------------------------------------------------------------------------------------


def install(environment: Environment, requirements: list[str], removed: list[str], lock_descriptor: int) -> None:
    """Install requirements and uninstall removed packages, with the first installer that succeeds."""
    file = environment.notes / "requirements.txt"
    file.write_text("\n".join(requirements) + "\n")
    reports: list[str] = []
    for name, install_command, uninstall_command in find_installers(str(environment.python)):
        print_status(f"preparing .venv: {len(requirements)} packages, with {name}")
        run = run_pip if name == "pip" else run_uv
        command = [*install_command, "--require-hashes", "--no-deps", "-r", str(file)]
        report = run(command, len(requirements), lock_descriptor)
        if report is None and removed:
            report = run([*uninstall_command, *removed], len(removed), lock_descriptor)
        if report is None:
            return
        reports.append(f"{name} failed:\n{report}")
    raise SetupFailed(
        "\n".join(reports)
        or f"{sys.executable} has neither pip nor uv; install one (Debian: apt install python3-pip) and run again"
    )


def find_installers(target: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield name, install command and uninstall command of uv and pip; both obey their user's configuration."""
    uv = shutil.which("uv")
    if uv or importlib.util.find_spec("uv"):
        common = [*([uv] if uv else [sys.executable, "-m", "uv"]), "pip"]
        python = ["--python", target]
        yield "uv", [*common, "install", *python, "--compile-bytecode"], [*common, "uninstall", *python]
    if pip := find_pip():
        common = [*pip, "--python", target, "--disable-pip-version-check"]
        yield "pip", [*common, "install", "--no-user"], [*common, "uninstall", "--yes"]


def find_pip() -> list[str]:
    """Return a command that runs pip: the module, the wheel that Python carries, or a program; empty without one."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if wheel := find_bundled_pip():
        return [sys.executable, str(wheel / "pip")]
    program = shutil.which("pip3") or shutil.which("pip")
    return [program] if program else []


def find_bundled_pip() -> Path | None:
    """Return the pip wheel that Python has for ensurepip, or that its distribution keeps; it runs as it is."""
    spec = importlib.util.find_spec("ensurepip")
    bundled = Path(spec.origin).parent / "_bundled" if spec and spec.origin else None
    directories = filter(None, (bundled, sysconfig.get_config_var("WHEEL_PKG_DIR")))
    return next((wheel for directory in directories for wheel in Path(directory).glob("pip-*.whl")), None)


def run_uv(command: list[str], _: int, lock_descriptor: int) -> str | None:
    """Run uv, which prints its own progress; return None when it succeeded, else the reason."""
    status = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, pass_fds=(lock_descriptor,)).returncode
    return None if status == 0 else f"exit status {status}, see above"


def run_pip(command: list[str], total: int, lock_descriptor: int) -> str | None:
    """Run pip and print its progress; return None when it succeeded, else the end of its output."""
    tail: deque[str] = deque(maxlen=MAX_REPORT_LINES)
    collected = 0
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=(lock_descriptor,)
    ) as process:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            if line.startswith("Collecting "):
                collected += 1
                print_progress(collected, total, line.split()[1])
            elif line.startswith("Installing collected packages"):
                print_progress(total, total, "unpacking")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return None if process.returncode == 0 else "\n".join(tail)


def print_progress(done: int, total: int, package: str) -> None:
    """Print the progress: on a terminal one line that changes, elsewhere every tenth step."""
    if sys.stderr.isatty():
        print(f"\r\033[K      {done}/{total} {package}", end="", file=sys.stderr, flush=True)
    elif done == total or done % 10 == 0:
        print_status(f"  {done}/{total} {package}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
