"""Prepare `.venv` from `requirements.lock`, for `./duly` and for an extra that is needed at run time.

    ./duly ...  ->  this file, only when the lock and .venv disagree  ->  .venv/bin/python -m duly ...

The lock is cut into sections, each headed by the groups that need it (`# [core]`, `# [ai ocr]`); a group is
installed by installing its sections. `.venv/duly/<group>` keeps a copy of the lock the group was installed from:
equal to the lock means nothing to do. The copy is written last, so whoever is killed half-way leaves no false
promise; `.venv/duly/unfinished` tells the next run that the environment cannot be trusted and is built anew. An
installer that outlives us keeps the lock we gave it, so nobody builds beside it.

Runs before anything is installed: standard library only, nothing else of duly.
"""

from __future__ import annotations

import contextlib
import fcntl
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
EXTRAS = ("ai", "apprise", "ocr", "telegram")
GROUPS = (CORE, *EXTRAS, "dev")
TAIL_LINES = 25


class SetupFailed(Exception):
    """The environment could not be prepared; the message says why and what to do."""


def main(arguments: list[str]) -> int:
    """Install the named groups and report as a command does: 0, or 69 with the reason on stderr."""
    try:
        prepare(ROOT, arguments or [CORE])
    except SetupFailed as failure:
        print(f"duly: {failure}", file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        print("\nduly: stopped; the next run starts the setup again", file=sys.stderr)
        return 130
    return 0


def prepare(root: Path, wanted: Iterable[str]) -> None:
    """Make `.venv` hold the wanted groups at the lock's versions; safe to call from many processes at once."""
    lock_text = (root / "requirements.lock").read_text()
    environment = Environment(root / ".venv")
    with setup_lock(root) as held_lock:
        environment.discard_if_broken()
        groups = expand(wanted) | environment.installed_groups()
        if all(environment.group_is_current(group, lock_text) for group in groups):
            return
        requirements = [line for names, line in sections(lock_text) if names & groups]
        leftovers = environment.noted_packages() - {name_of(line) for _, line in sections(lock_text)}
        environment.create_if_missing()
        with environment.unfinished():
            change(environment, requirements, leftovers, held_lock)
            environment.link_source(root / "src")
            environment.remember(groups, lock_text)


def expand(wanted: Iterable[str]) -> frozenset[str]:
    """The groups to install for what was asked: core always; `all` means every group there is."""
    asked = frozenset(wanted)
    if unknown := asked - {ALL, *GROUPS}:
        raise SetupFailed(f"no such extra: {', '.join(sorted(unknown))}; there are {', '.join(EXTRAS)}")
    return frozenset({ALL, *GROUPS}) if ALL in asked else asked | {CORE}


def sections(lock_text: str) -> Iterator[tuple[frozenset[str], str]]:
    """Each requirement of the lock, hashes included, with the groups whose section it stands in."""
    groups: frozenset[str] = frozenset()
    entry: list[str] = []
    for line in lock_text.splitlines():
        if heading := re.fullmatch(r"# \[([a-z ]+)\]", line):
            groups = frozenset(heading[1].split())
        elif line and not line.startswith("#"):
            entry.append(line)
            if not line.endswith("\\"):
                yield groups, "\n".join(entry)
                entry = []


def name_of(requirement: str) -> str:
    """The package a requirement is about."""
    return re.split(r"[=; \\]", requirement, maxsplit=1)[0]


@contextlib.contextmanager
def setup_lock(root: Path) -> Generator[int, None, None]:
    """Hold the right to change `.venv`; whoever comes second waits, and says so."""
    try:
        file = (root / ".venv.lock").open("w")
    except OSError as error:
        raise SetupFailed(f"cannot write to {root}: {error.strerror}; clone into a directory of your own") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another duly is preparing .venv; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


@dataclass(frozen=True)
class Environment:
    """The virtual environment at `path`, and what we noted in it under `duly/`."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def notes(self) -> Path:
        return self.path / "duly"

    def group_is_current(self, group: str, lock_text: str) -> bool:
        """Was the group installed from exactly this lock?"""
        note = self.notes / group
        return note.exists() and note.read_text() == lock_text

    def installed_groups(self) -> frozenset[str]:
        """Groups somebody asked for before: a changed lock brings them along."""
        return frozenset(group for group in (ALL, *GROUPS) if (self.notes / group).exists())

    def noted_packages(self) -> frozenset[str]:
        """Packages of the lock that was installed last."""
        notes = [self.notes / group for group in self.installed_groups()]
        return frozenset(name_of(entry) for note in notes for _, entry in sections(note.read_text()))

    def discard_if_broken(self) -> None:
        """Remove an environment whose setup was cut short or whose Python is gone or too old."""
        for discarded in self.path.parent.glob(f"{self.path.name}.old-*"):
            shutil.rmtree(discarded, ignore_errors=True)
        if not self.path.exists():
            return
        if (self.notes / "unfinished").exists():
            say("the last setup was interrupted; starting it again")
        elif self.runs():
            return
        else:
            say("the Python of .venv is gone or too old; building it anew")
        try:
            aside = self.path.rename(f"{self.path}.old-{os.getpid()}")  # half a removal must not pass for a whole one
            shutil.rmtree(aside)
        except OSError as error:
            raise SetupFailed(f"cannot replace {self.path}: {error}; remove it and run again") from error

    def runs(self) -> bool:
        """Does its interpreter start, is it new enough, and does it know that it is in this environment?"""
        check = "import sys; sys.version_info >= (3, 11) and print(sys.prefix)"
        try:
            answer = subprocess.run([self.python, "-I", "-c", check], capture_output=True, text=True)
        except OSError:
            return False
        return os.path.realpath(answer.stdout.strip() or "/") == os.path.realpath(self.path)

    def create_if_missing(self) -> None:
        """Make an empty environment; pip is not put into it, so ensurepip is not needed."""
        if self.python.exists():
            return
        interpreter = os.path.realpath(sys.executable)
        made = subprocess.run(
            [interpreter, "-I", "-m", "venv", "--without-pip", self.path], capture_output=True, text=True
        )
        if made.returncode:  # a Python without its venv module: PEP 405 needs no more than this
            self.path.mkdir(exist_ok=True)
            (self.path / "pyvenv.cfg").write_text(
                f"home = {Path(interpreter).parent}\ninclude-system-site-packages = false\n"
            )
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            (self.path / "lib" / version / "site-packages").mkdir(parents=True, exist_ok=True)
            self.python.parent.mkdir(exist_ok=True)
            for name in ("python", "python3", version):
                with contextlib.suppress(FileExistsError):
                    (self.python.parent / name).symlink_to(interpreter)

    @contextlib.contextmanager
    def unfinished(self) -> Generator[None, None, None]:
        """Mark the environment as being changed; only a crash or a kill leaves the mark behind.

        What was noted before no longer holds from here on, even if the change fails.
        """
        self.notes.mkdir(exist_ok=True)
        mark = self.notes / "unfinished"
        mark.touch()
        for group in self.installed_groups():
            with (self.notes / group).open("a") as note:
                note.write("# being replaced\n")
        try:
            yield
        except SetupFailed:
            mark.unlink()
            raise
        mark.unlink()

    def link_source(self, source: Path) -> None:
        """Let the environment import duly from the checkout; relative, so a moved checkout still works."""
        for site_packages in self.path.glob("lib/python3.*/site-packages"):
            write_whole(site_packages / "duly-launcher.pth", os.path.relpath(source, site_packages) + "\n")

    def remember(self, groups: Iterable[str], lock_text: str) -> None:
        """Note that these groups now match the lock."""
        for group in groups:
            write_whole(self.notes / group, lock_text)


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: whoever looks sees the old one or the new one."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


@dataclass(frozen=True)
class Installer:
    """A program that can change another environment, obeying its user's settings."""

    name: str
    install: tuple[str, ...]
    uninstall: tuple[str, ...]
    counts: bool  # prints one line per package, which we turn into progress; uv draws its own


def uv_installer(*program: str, target: str) -> Installer:
    """uv, found as this program."""
    install = ("pip", "install", "--python", target, "--compile-bytecode")
    return Installer("uv", (*program, *install), (*program, "pip", "uninstall", "--python", target), counts=False)


def pip_installer(*program: str, target: str) -> Installer:
    """pip, found as this program; it works on the target from outside."""
    common = (*program, "--python", target, "--disable-pip-version-check")
    return Installer("pip", (*common, "install", "--no-user"), (*common, "uninstall", "--yes"), counts=True)


def installers(environment: Environment) -> Iterator[Installer]:
    """uv and pip in every form they may be found, the quickest first."""
    target = str(environment.python)
    if uv := shutil.which("uv"):
        yield uv_installer(uv, target=target)
    elif importlib.util.find_spec("uv"):
        yield uv_installer(sys.executable, "-m", "uv", target=target)
    if importlib.util.find_spec("pip"):
        yield pip_installer(sys.executable, "-m", "pip", target=target)
    elif wheel := bundled_pip():
        yield pip_installer(sys.executable, str(wheel / "pip"), target=target)
    elif pip := shutil.which("pip3") or shutil.which("pip"):
        yield pip_installer(pip, target=target)


def bundled_pip() -> Path | None:
    """The pip wheel that Python carries for ensurepip, or its distribution keeps aside; it runs from the file."""
    spec = importlib.util.find_spec("ensurepip")
    places = [
        Path(spec.origin).parent / "_bundled" if spec and spec.origin else None,
        sysconfig.get_config_var("WHEEL_PKG_DIR"),
    ]
    wheels = (wheel for place in places if place for wheel in Path(place).glob("pip-*.whl"))
    return next(wheels, None)


def change(environment: Environment, requirements: list[str], leftovers: frozenset[str], held_lock: int) -> None:
    """Install these requirements and remove what the lock no longer has, by the first program that manages to."""
    file = environment.notes / "requirements.txt"
    file.write_text("\n".join(requirements) + "\n")
    arguments = ("--require-hashes", "--no-deps", "-r", str(file))
    reports: list[str] = []
    for installer in installers(environment):
        say(f"preparing .venv: {len(requirements)} packages, with {installer.name}")
        run = follow if installer.counts else watch
        report = run([*installer.install, *arguments], len(requirements), held_lock)
        if report is None and leftovers:
            report = run([*installer.uninstall, *sorted(leftovers)], len(leftovers), held_lock)
        if report is None:
            return
        reports.append(f"{installer.name} failed:\n{report}")
    raise SetupFailed(
        "\n".join(reports)
        or f"{sys.executable} has neither pip nor uv; install one (Debian: apt install python3-pip) and run again"
    )


def watch(command: list[str], _: int, held_lock: int) -> str | None:
    """Run an installer that draws its own progress; None when it succeeded."""
    status = subprocess.run(command, cwd=ROOT, stdout=sys.stderr, pass_fds=(held_lock,)).returncode
    return None if status == 0 else f"exit status {status}, see above"


def follow(command: list[str], total: int, held_lock: int) -> str | None:
    """Run pip and show how far it is; None when it succeeded, else the end of what it said."""
    tail: deque[str] = deque(maxlen=TAIL_LINES)
    done = 0
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=(held_lock,)
    ) as process:
        for line in process.stdout or ():
            tail.append(line.rstrip())
            if line.startswith("Collecting "):
                done += 1
                show_progress(done, total, line.split()[1])
            elif line.startswith("Installing collected packages"):
                show_progress(total, total, "unpacking")
    end_progress()
    return None if process.returncode == 0 else "\n".join(tail)


def show_progress(done: int, total: int, what: str) -> None:
    """One line that moves on a terminal; elsewhere every tenth step, so that logs stay short."""
    if sys.stderr.isatty():
        filled = 24 * done // max(total, 1)
        bar = "#" * filled + "." * (24 - filled)
        print(f"\r\033[K      [{bar}] {done}/{total} {what}", end="", file=sys.stderr, flush=True)
    elif done == total or done % 10 == 0:
        say(f"  {done}/{total} {what}")


def end_progress() -> None:
    """Leave the moving line."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def say(message: str) -> None:
    """Tell the person on stderr: stdout belongs to the command that follows."""
    print(f"duly: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
