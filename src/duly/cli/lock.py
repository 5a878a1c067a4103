"""`duly lock`: one resolution, written as a hash-only lock cut into groups, and as uv's pins.

    pyproject.toml --uv lock--> uv.lock (thrown away: it records addresses)
                                   +--uv export per group--> requirements.lock        what the launcher installs
                                   +------------------------> constraint-dependencies  so `uv sync` picks the same

The lock is an ordinary requirements file; a heading `# [ai ocr]` before a package says which groups need it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from duly.errors import Misconfigured
from duly.launcher import CORE, EXTRAS, ROOT, name_of, sections, write_whole

__all__ = ["problems_of_locks", "run_lock"]

HEADER = """\
# Every package duly installs, by hash. Made by `./duly lock`; do not edit.
# A heading names the groups that need what follows: core, the extras, dev.
"""
BEGIN, END = "# pins: begin (made by `./duly lock`)\n", "# pins: end\n"
LOCK_FILES = ("*.lock", "*lock*.json", "*lock*.y*ml", "pylock*", "requirements*")
ADDRESS = re.compile(r"[a-z+]+://|^\s*(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", re.MULTILINE)


def run_lock(upgrade: bool, as_json: bool) -> None:
    """Resolve everything first, then write both files."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        pyproject = (ROOT / "pyproject.toml").read_text()
        (project / "pyproject.toml").write_text(without_pins(pyproject) if upgrade else pyproject)
        uv(project, "lock")
        groups = {CORE: export(project)}
        groups |= {extra: export(project, "--extra", extra) for extra in EXTRAS}
        everything = export(project, "--all-extras", "--all-groups")
    write_whole(ROOT / "requirements.lock", HEADER + render(everything, groups))
    write_whole(ROOT / "pyproject.toml", with_pins(pyproject, everything))
    counts = {"packages": len(everything), "core": len(groups[CORE])}
    text = f"duly: requirements.lock holds {counts['packages']} packages, {counts['core']} of them core"
    print(json.dumps(counts) if as_json else text)


def uv(project: Path, *arguments: str) -> str:
    """Run uv on the project, as its user configured it, but never with an address of its own making."""
    program = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    command = [program, *arguments, "--project", str(project)]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    answer = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    if answer.returncode:
        raise Misconfigured(f"uv {arguments[0]} failed:\n{answer.stderr.strip()}")
    return answer.stdout


def export(project: Path, *choice: str) -> dict[str, str]:
    """The packages of a choice of groups: requirement (with its marker) to entry (with its hashes)."""
    options = ("--frozen", "--no-default-groups", "--no-emit-project", "--no-annotate", "--no-header")
    text = uv(project, "export", "--format", "requirements.txt", *options, *choice)
    entries = by_requirement(entry for _, entry in sections(text))
    if bare := [requirement for requirement, entry in entries.items() if "--hash=" not in entry]:
        raise Misconfigured(f"the index in use gives no hashes for {', '.join(bare)}; lock with one that does")
    return entries


def by_requirement(entries: Iterable[str]) -> dict[str, str]:
    """Entries under their requirement, in the order of their names."""
    found = {requirement_of(entry): entry for entry in entries}
    return dict(sorted(found.items(), key=lambda item: (name_of(item[0]), item[0])))


def requirement_of(entry: str) -> str:
    """`name==version ; marker` without the hashes."""
    return entry.split("\\")[0].strip()


def render(everything: dict[str, str], groups: dict[str, dict[str, str]]) -> str:
    """The entries under the groups that need them; what only work on duly needs goes under dev."""
    under: dict[tuple[str, ...], list[str]] = defaultdict(list)
    names = {group: {name_of(requirement) for requirement in packages} for group, packages in groups.items()}
    for requirement, entry in everything.items():
        needing = tuple(group for group in (CORE, *EXTRAS) if name_of(requirement) in names[group])
        under[(CORE,) if CORE in needing else needing or ("dev",)].append(entry)
    ordered = sorted(under, key=lambda needing: (needing != (CORE,), needing == ("dev",), needing))
    return "".join(f"\n# [{' '.join(needing)}]\n" + "\n".join(under[needing]) + "\n" for needing in ordered)


def without_pins(pyproject: str) -> str:
    """pyproject.toml as people write it."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), "", pyproject, flags=re.DOTALL)


def with_pins(pyproject: str, everything: dict[str, str]) -> str:
    """pyproject.toml with uv held to the lock's versions."""
    pins = "".join(f'    "{requirement}",\n' for requirement in everything)
    block = f"{BEGIN}constraint-dependencies = [\n{pins}]\n{END}"
    return without_pins(pyproject).replace("[tool.uv]\n", f"[tool.uv]\n{block}", 1)


def problems_of_locks(root: Path) -> list[str]:
    """What is wrong with the lock files of a checkout; nothing is fetched to find out."""
    problems = [
        f"{path.relative_to(root)} contains an address ({found[0].strip()}); make it with ./duly lock"
        for path in lock_files(root)
        if (found := ADDRESS.search(path.read_text()))
    ]
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    locked = {requirement_of(entry) for _, entry in sections((root / "requirements.lock").read_text())}
    if locked != set(pyproject["tool"]["uv"].get("constraint-dependencies", [])):
        problems.append("requirements.lock and the pins in pyproject.toml differ; run ./duly lock")
    missing = declared(pyproject) - {name_of(requirement) for requirement in locked}
    if missing:
        problems.append(f"pyproject.toml asks for {', '.join(sorted(missing))}, not in the lock; run ./duly lock")
    return problems


def lock_files(root: Path) -> list[Path]:
    """The lock files git tracks, or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *LOCK_FILES]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if listed.returncode:
        raise Misconfigured(f"git cannot list the lock files of {root}: {listed.stderr.strip()}")
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def declared(pyproject: dict[str, Any]) -> set[str]:
    """The names of every direct dependency."""
    project: dict[str, Any] = pyproject["project"]
    lists: list[list[str]] = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *pyproject["dependency-groups"].values(),
    ]
    words = [word for some in lists for word in some]
    return {re.split(r"[^A-Za-z0-9._-]", word)[0].lower().replace("_", "-") for word in words} - {"duly"}
