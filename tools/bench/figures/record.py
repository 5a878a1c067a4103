"""What one benchmark answered, with everything that its figures depend on, as it is kept."""

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
    """A benchmark's own answer, and where and when it came about."""

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
        """Every measurement, as it was."""
        return [Measure(**each) for each in self.answer["measures"]]

    @property
    def steady_measures(self) -> list[Measure]:
        """Every measurement in which no plan flipped: what medians are of."""
        measures = self.measures
        flips = find_flips(measures)
        return [each for each in measures if each.key not in flips]

    @property
    def goals(self) -> list[Goal]:
        """What was needed of those."""
        known = {each.name for each in fields(Goal)}
        return [Goal(**{key: value for key, value in each.items() if key in known}) for each in self.answer["goals"]]

    @property
    def scenarios(self) -> dict[str, str]:
        """What each scenario is, in words; those that were measured, in their order."""
        words = cast("Mapping[str, str]", self.answer.get("scenarios", {}))
        measured = list(dict.fromkeys(each.scenario for each in self.measures))
        return {name: words.get(name, name) for name in sorted(measured, key=[*words, *measured].index)}

    @property
    def variants(self) -> list[str]:
        """Who was measured, whoever comes first by nature first."""
        named = cast("Sequence[str]", self.answer.get("columns", []))
        measured = list(dict.fromkeys(each.variant for each in self.measures))
        return sorted(measured, key=[*named, *measured].index)

    @property
    def sizes(self) -> Mapping[str, float]:
        """How much of everything there was."""
        return cast("Mapping[str, float]", self.answer.get("sizes", {}))

    @property
    def rounds(self) -> int:
        """How often everything was measured."""
        return len({each.round for each in self.measures})

    @property
    def was_busy(self) -> bool:
        """Had the machine other work than this when it began?"""
        return self.load[0] > cast("int", self.machine["processors"])

    def text(self) -> str:
        """As it is kept; the first line says what it is."""
        output = f"by `{self.command}`; python -m tools.bench.figures --from-json draws its charts and page again"
        return json.dumps({"generated": output, **asdict(self)}, indent=1).replace("{\n ", "{", 1) + "\n"

    @classmethod
    def read(cls, file: Path) -> "Record":
        """What was kept."""
        kept = json.loads(file.read_text())
        return cls(**{each.name: kept[each.name] for each in fields(cls)})

    @classmethod
    def from_answer(cls, name: str, command: str, start: RunStart, answer: Mapping[str, Any]) -> "Record":
        """What was measured just now."""
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
    """Which PostgreSQL it says it ran on."""
    return str(answer.get("server", "?")).split(",")[0].removeprefix("PostgreSQL ")


def machine_here() -> dict[str, object]:
    """What this machine is, as far as a figure depends on it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processors": os.cpu_count() or 0,
        "architecture": platform.machine(),
        "memory_gb": round(memory / GIGABYTE, 1),
        "kernel": f"{platform.system()} {kernel_release()}",
    }


def kernel_release() -> str:
    """Major and minor: the rest names a machine and not what a figure depends on."""
    return ".".join(platform.release().split(".")[:2])


def versions_here() -> dict[str, str]:
    """Ours, Python's and the peers'."""
    found = {"duly": __version__, "Python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def commit_here() -> str:
    """Which commit is measured, and whether something of it was changed since."""
    commit = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--", "src", "tools/bench")
    return (commit or "unknown") + (", with changes that are not committed" if changed else "")


def git(*arguments: str) -> str:
    """What git says, or nothing where it does not know this place."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
