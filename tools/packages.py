"""Install duly with each extra in a clean environment, measure it, and run its first command.

    python -m tools.packages                 every extra; writes docs/figures/packages.md
    python -m tools.packages engine server   only these; prints them

The wheel is built from this checkout and installed with uv, at the versions of `requirements.lock`. Databases are those
of a private server; `embedded` and what includes it start their own.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from duly.launcher import ROOT, parse_lock
from duly.testing import TestDatabases, open_server, shared_directory
from tools.commands.lock import strip_hashes

PAGE = ROOT / "docs" / "figures" / "packages.md"
MAX_ENGINE_MB = 70
MB = 1e6
IMPORTS = 5  # of which the fastest counts
SECONDS = 120.0
MAX_ANSWER_LENGTH = 120
MIGRATE = ("migrate",)
OWN_SETTINGS = ("DULY_", "PG", "DATABASE_", "POSTGRES_", "TEST_DATABASE_", "PYTHON", "VIRTUAL_ENV")
BEGINNING = """\
# What each extra installs

Measured by `python -m tools.packages` on {day}, Python {python}, {platform}: the wheel of a checkout in a clean
environment, at the versions of `requirements.lock`. MB are 10^6 bytes of all installed files, those of duly included;
Python's bytecode comes on top, which pip writes when it installs and uv only if asked. The import is the CPU time of
the module named, the least of {imports}, without Python's own start.

"""
ENDING = """
The engine has {direct} direct dependencies. Where an extra is missing, a command says so, measured in the environment
of the engine:

| command | answer |
|---|---|
"""


@dataclass(frozen=True)
class Case:
    """An installation: its extras, the module whose import is timed, and its first command after the preparing ones."""

    extras: str
    module: str
    command: Sequence[str]
    preparing: Sequence[Sequence[str]] = ()
    requirements: Sequence[str] = ()  # beside duly; they replace the pins of the lock
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    has_own_server: bool = False
    runs_on: bool = False  # until it is stopped: its first line is the answer
    expected: str = ""  # a part of the answer


CASES: Mapping[str, Case] = {
    "engine": Case("", "duly.app", MIGRATE, expected="the database is at engine_0001"),
    "engine, SQLAlchemy 2.0": Case(
        "", "duly.app", MIGRATE, requirements=["sqlalchemy>=2.0,<2.1"], expected="the database is at engine_0001"
    ),
    "server": Case(
        "server", "duly.http.app", ["serve", "--port", "0"], [MIGRATE], runs_on=True, expected="API at http://"
    ),
    "embedded": Case(
        "embedded", "duly.db.embedded", MIGRATE, has_own_server=True, expected="the database is at engine_0001"
    ),
    "server, embedded": Case(
        "server,embedded", "duly.http.app", ["up", "--port", "0"], has_own_server=True, runs_on=True, expected="is up"
    ),
    "apps": Case("apps", "duly.apps.posts.service", ["posts", "list"], [MIGRATE], expected="author_id"),
    "ocr": Case("ocr", "onnxruntime", ["ingest", "read", "fixtures/demo/day.png"], expected="08:00"),
    "telegram": Case(
        "telegram", "duly.telegram.dispatcher", ["bot"], [MIGRATE], expected="TELEGRAM_BOT_TOKEN is not set"
    ),
    "apprise": Case(
        "apprise",
        "apprise",
        ["people", "set", "anna", "--apprise", "ntfys://ntfy.sh/anna"],
        [MIGRATE, ["people", "create", "anna"]],
        expected="changed",
    ),
    "ai": Case(
        "ai",
        "openai",
        ["worker", "--once"],
        [MIGRATE],
        settings={"DULY_POSTS_ANALYZER": "openai", "OPENAI_MODEL": "small", "OPENAI_BASE_URL": "http://localhost:9/v1"},
        expected="0 rows in this cycle",
    ),
    "all": Case("all", "duly.http.app", ["up", "--port", "0"], has_own_server=True, runs_on=True, expected="is up"),
}
REFUSED = (["serve"], ["up"], ["posts", "list"], ["ingest", "read", "day.png"], ["bot"])


@dataclass(frozen=True)
class Measurement:
    """What came of an installation."""

    packages: int
    megabytes: float
    megabytes_with_bytecode: float
    import_ms: float
    answer: str
    refusals: Mapping[str, str]

    def has_worked(self, case: Case) -> bool:
        """Return whether the first command gave the expected answer."""
        return case.expected in self.answer


@dataclass(frozen=True)
class Environment:
    """A clean virtual environment."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.path.glob("lib/python3.*/site-packages"))

    def size(self) -> float:
        """Return the size of all installed files, in MB."""
        return sum(each.lstat().st_size for each in self.site_packages.rglob("*") if not each.is_dir()) / MB

    def import_ms(self, module: str) -> float:
        """Return the CPU time that the import of a module takes in a new process."""
        program = f"import time; began = time.process_time(); import {module}; print(time.process_time() - began)"
        command = [self.python, "-P", "-c", program]
        runs = [subprocess.run(command, cwd="/", capture_output=True, text=True, check=True) for _ in range(IMPORTS)]
        return min(float(run.stdout) for run in runs) * 1000

    def duly(self, arguments: Sequence[str], settings: Mapping[str, str], runs_on: bool = False) -> str:
        """Run a command to its end, or until its first line; return what it prints that a person reads."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)}
        with subprocess.Popen(
            [self.path / "bin" / "duly", *arguments],
            cwd=ROOT,
            env={**kept, **settings, "DULY_LOG_LEVEL": "error"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as program:
            assert program.stdout
            if runs_on:
                first = program.stdout.readline()
                program.terminate()
                program.communicate(timeout=SECONDS)
                return first
            return program.communicate(timeout=SECONDS)[0]


def main(arguments: Sequence[str]) -> int:
    """Measure the named cases, or all of them and write the page; return 0 if every first command answered well."""
    if unknown := [name for name in arguments if name not in CASES]:
        print(f"unknown: {', '.join(unknown)}; choose from {', '.join(CASES)}", file=sys.stderr)
        return 2
    found: dict[str, Measurement] = {}
    with shared_directory(Path(tempfile.mkdtemp(prefix="duly-packages-", dir="/tmp"))) as directory:
        wheel = build_wheel(directory)
        with open_server(directory) as server:
            for name in arguments or CASES:
                found[name] = measure(CASES[name], directory, wheel, server)
                print(render_row(name, found[name]), flush=True)
    if not arguments:
        PAGE.write_text(render_page(found))
    failed = [name for name, measurement in found.items() if not measurement.has_worked(CASES[name])]
    for name in failed:
        print(f"{name}: expected {CASES[name].expected!r}, got: {found[name].answer}", file=sys.stderr)
    return 1 if failed else 0


def build_wheel(directory: Path) -> Path:
    """Build the wheel of this checkout."""
    run_uv("build", "--wheel", "--out-dir", directory / "wheel", ROOT)
    return next((directory / "wheel").glob("*.whl"))


def run_uv(*arguments: str | Path) -> str:
    """Run uv with the user's configuration; return its output."""
    done = subprocess.run([sys.executable, "-m", "uv", "-q", *arguments], cwd="/", capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"uv {arguments[0]}: {done.stderr}")
    return done.stdout


def measure(case: Case, directory: Path, wheel: Path, server: str) -> Measurement:
    """Install a case, measure it, and run its commands on a new database."""
    with tempfile.TemporaryDirectory(dir=directory) as place:
        environment = install(case, Path(place), wheel)
        size = environment.size()
        packages = len(json.loads(run_uv("pip", "list", "--format", "json", "--python", environment.python)))
        subprocess.run([environment.python, "-m", "compileall", "-q", environment.site_packages], check=True)
        with settings_for(case, Path(place), server) as settings:
            for command in case.preparing:
                environment.duly(command, settings)
            answer = environment.duly(case.command, settings, case.runs_on)
        refusals = {" ".join(each): readable(environment.duly(each, {})) for each in REFUSED} if not case.extras else {}
        import_ms = environment.import_ms(case.module)
        return Measurement(packages, size, environment.size(), import_ms, readable(answer), refusals)


def install(case: Case, directory: Path, wheel: Path) -> Environment:
    """Install duly with its extras in a clean environment, at the versions of the lock."""
    environment = Environment(directory / "environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment.path], check=True)
    replaced = [re.split(r"[^\w-]", requirement)[0] for requirement in case.requirements]
    pins = [strip_hashes(entry) for _, entry in parse_lock((ROOT / "requirements.lock").read_text())]
    constraints = directory / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in pins if pin.partition("==")[0] not in replaced))
    extras = f"[{case.extras}]" if case.extras else ""
    options = ("--python", environment.python, "--constraint", constraints)
    run_uv("pip", "install", *options, f"duly{extras} @ {wheel.as_uri()}", *case.requirements)
    return environment


@contextmanager
def settings_for(case: Case, directory: Path, server: str) -> Generator[Mapping[str, str], None, None]:
    """Yield the settings of a case: a new database, or a directory for a server of its own."""
    databases = TestDatabases(server, "duly_test_packages", template="template0")
    with nullcontext() if case.has_own_server else databases.clone("case") as dsn:
        address = {"DATABASE_URL": dsn} if dsn else {}
        yield {**address, **case.settings, "DULY_HOME": str(directory / "home")}


def readable(answer: str) -> str:
    """Shorten an answer to the lines that fit into a table."""
    lines = [" ".join(line.split()) for line in answer.strip().splitlines() if line.strip()]
    text = " … ".join(lines).replace("|", "\\|")
    return text if len(text) <= MAX_ANSWER_LENGTH else f"{text[:MAX_ANSWER_LENGTH]} …"


# The page -------------------------------------------------------------------------------------------------------------


def render_page(found: Mapping[str, Measurement]) -> str:
    """Render the page."""
    header = ["| installed | packages | MB | MB with bytecode | import | first command | answer |", "|---" * 7 + "|"]
    python = ".".join(map(str, sys.version_info[:3]))
    beginning = BEGINNING.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        python=python,
        platform=f"{sys.platform} {os.uname().machine}",
        imports=IMPORTS,
    )
    rows = [render_row(name, measurement) for name, measurement in found.items()]
    refusals = [f"| `duly {command}` | {answer} |" for command, answer in found["engine"].refusals.items()]
    ending = ENDING.format(direct=count_direct_dependencies())
    return beginning + "\n".join([*header, *rows]) + "\n" + ending + "\n".join(refusals) + "\n"


def render_row(name: str, measurement: Measurement) -> str:
    """Render the row of a case."""
    case = CASES[name]
    settings = "".join(f"{variable}={value} " for variable, value in case.settings.items())
    answer = re.sub(r"(:)\d{4,5}\b|\b\d+\.\d s\b", lambda port: ":…" if port[1] else "… s", measurement.answer)
    cells = (
        f"`{name}`",
        measurement.packages,
        f"{measurement.megabytes:.0f}",
        f"{measurement.megabytes_with_bytecode:.0f}",
        f"{measurement.import_ms:.0f} ms `{case.module}`",
        f"`{settings}duly {' '.join(case.command)}`",
        answer,
    )
    return f"| {' | '.join(map(str, cells))} |"


def count_direct_dependencies() -> int:
    """Return how many packages the engine declares."""
    return len(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])


if __name__ == "__main__":
    began = time.monotonic()
    status = main(sys.argv[1:])
    print(f"took {time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(status)
