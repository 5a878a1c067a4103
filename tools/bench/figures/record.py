"""The stored answer of one benchmark, with everything that its figures depend on."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from duly import __version__
from duly.launcher import ROOT
from tools.bench.report import Goal, Measure, find_flips

PACKAGES = ("psycopg", "uvloop", "asyncpg", "pgqueuer", "procrastinate")
GIGABYTE = 1e9


@dataclass(frozen=True)
class RunStart:
    """What must be recorded before a measurement begins."""

    monotonic: float
    load: float
    commit: str

    @classmethod
    def now(cls) -> "RunStart":
        """Record it now."""
        return cls(time.monotonic(), os.getloadavg()[0], commit_here())


@dataclass(frozen=True)
class Record:
    """A benchmark's answer, and where and when it was measured."""

    name: str
    command: str
    measured_at: str
    seconds: float
    commit: str
    machine: Mapping[str, object]
    versions: Mapping[str, str]
    load: Sequence[float]  # of one minute, before and after
    answer: Mapping[str, Any] = field(repr=False)

    @property
    def measures(self) -> list[Measure]:
        """Return every measure."""
        return [Measure(**each) for each in self.answer["measures"]]

    @property
    def steady_measures(self) -> list[Measure]:
        """Return the measures in which no plan flipped: medians are of these."""
        measures = self.measures
        flips = find_flips(measures)
        return [each for each in measures if each.key not in flips]

    @property
    def goals(self) -> list[Goal]:
        """Return the goals."""
        known = {each.name for each in fields(Goal)}
        return [Goal(**{key: value for key, value in each.items() if key in known}) for each in self.answer["goals"]]

    @property
    def scenarios(self) -> dict[str, str]:
        """Return the titles of the measured scenarios, in their order."""
        words = cast("Mapping[str, str]", self.answer.get("scenarios", {}))
        measured = list(dict.fromkeys(each.scenario for each in self.measures))
        return {name: words.get(name, name) for name in sorted(measured, key=[*words, *measured].index)}

    @property
    def variants(self) -> list[str]:
        """Return the measured variants, in the order of the columns."""
        named = cast("Sequence[str]", self.answer.get("columns", []))
        measured = list(dict.fromkeys(each.variant for each in self.measures))
        return sorted(measured, key=[*named, *measured].index)

    @property
    def sizes(self) -> Mapping[str, float]:
        """Return the sizes."""
        return cast("Mapping[str, float]", self.answer.get("sizes", {}))

    @property
    def rounds(self) -> int:
        """Count the rounds."""
        return len({each.round for each in self.measures})

    @property
    def was_busy(self) -> bool:
        """Check whether the machine had other work when the run began."""
        return self.load[0] > cast("int", self.machine["processors"])

    def text(self) -> str:
        """Encode the record; the first line says that it is generated."""
        output = f"by `{self.command}`; python -m tools.bench.figures --from-json draws its charts and page again"
        return json.dumps({"generated": output, **asdict(self)}, indent=1).replace("{\n ", "{", 1) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Record":
        """Read a stored record."""
        kept = json.loads(file.read_text())
        return cls(**{each.name: kept[each.name] for each in fields(cls)})

    @classmethod
    def from_answer(cls, name: str, command: str, start: RunStart, answer: Mapping[str, Any]) -> "Record":
        """Build the record of an answer that was measured just now."""
        return cls(
            name,
            command,
            datetime.now(UTC).isoformat(timespec="minutes"),
            round(time.monotonic() - start.monotonic, 1),
            start.commit,
            machine_here(),
            {**versions_here(), "PostgreSQL": parse_server_version(answer)},
            [round(start.load, 1), round(os.getloadavg()[0], 1)],
            answer,
        )


def parse_server_version(answer: Mapping[str, Any]) -> str:
    """Return the version of PostgreSQL in an answer."""
    return str(answer.get("server", "?")).split(",")[0].removeprefix("PostgreSQL ")


def machine_here() -> dict[str, object]:
    """Describe this machine, as far as figures depend on it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processors": os.cpu_count() or 0,
        "architecture": platform.machine(),
        "memory_gb": round(memory / GIGABYTE, 1),
        "kernel": f"{platform.system()} {kernel_release()}",
    }


def kernel_release() -> str:
    """Return the major and minor version of the kernel."""
    return ".".join(platform.release().split(".")[:2])


def versions_here() -> dict[str, str]:
    """Return the versions of duly, Python and the peers."""
    found = {"duly": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit_here() -> str:
    """Return the measured commit, and whether the tree differs from it."""
    commit = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", "src", "tools/bench")
    return (commit or "unknown") + (", with changes that are not committed" if changed else "")


def git(*arguments: str) -> str:
    """Return what git prints, or nothing outside a repository."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
