"""`duly lock`: resolve once, and write a hash-only lock divided into groups, and uv's pins.

    pyproject.toml --uv lock--> uv.lock (thrown away: it contains URLs)
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
from typing import Annotated, Any

import typer

from duly.cli.options import Json
from duly.errors import Misconfigured
from duly.launcher import CORE, EXTRAS, ROOT, package_name, parse_lock, write_atomically

app = typer.Typer()

HEADER = """\
# Every package duly installs, by hash. Made by `./duly lock`; do not edit.
# A heading names the groups that need what follows: core, the extras, dev.
"""
BEGIN, END = "# pins: begin (made by `./duly lock`)\n", "# pins: end\n"
LOCK_FILES = ("*.lock", "*lock*.json", "*lock*.y*ml", "pylock*", "requirements*")
URL = re.compile(r"[a-z+]+://|^\s*(-i|-f|--(extra-)?index-url|--find-links|--trusted-host)\b", re.MULTILINE)


@app.command("lock")
def lock(
    upgrade: Annotated[
        bool, typer.Option("--upgrade", help="Upgrade to the newest versions instead of keeping the pinned ones.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Regenerate requirements.lock and uv's pins from pyproject.toml.

    Example: duly lock --upgrade
    """
    write_locks(upgrade=upgrade, as_json=as_json)


def write_locks(upgrade: bool, as_json: bool) -> None:
    """Resolve everything first, then write both files."""
    with tempfile.TemporaryDirectory() as directory:
        project = Path(directory)
        pyproject = (ROOT / "pyproject.toml").read_text()
        (project / "pyproject.toml").write_text(without_pins(pyproject) if upgrade else pyproject)
        uv(project, "lock")
        groups = {CORE: export(project)}
        groups |= {extra: export(project, "--extra", extra) for extra in EXTRAS}
        everything = export(project, "--all-extras", "--all-groups")
    write_atomically(ROOT / "requirements.lock", HEADER + render(everything, groups))
    write_atomically(ROOT / "pyproject.toml", with_pins(pyproject, everything))
    counts = {"packages": len(everything), "core": len(groups[CORE])}
    text = f"duly: requirements.lock has {counts['packages']} packages, {counts['core']} of them core"
    print(json.dumps(counts) if as_json else text)


def uv(project: Path, *arguments: str) -> str:
    """Run uv on the project with the user's configuration; return its output."""
    program = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    command = [program, *arguments, "--project", str(project)]
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    result = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    if result.returncode:
        raise Misconfigured(f"uv {arguments[0]} failed:\n{result.stderr.strip()}")
    return result.stdout


def export(project: Path, *groups: str) -> dict[str, str]:
    """Return the packages of these groups: requirement (with its marker) to entry (with its hashes)."""
    options = ("--frozen", "--no-default-groups", "--no-emit-project", "--no-annotate", "--no-header")
    text = uv(project, "export", "--format", "requirements.txt", *options, *groups)
    entries = by_requirement(entry for _, entry in parse_lock(text))
    if unhashed := [requirement for requirement, entry in entries.items() if "--hash=" not in entry]:
        raise Misconfigured(f"the index in use gives no hashes for {', '.join(unhashed)}; lock with one that does")
    return entries


def by_requirement(entries: Iterable[str]) -> dict[str, str]:
    """Map requirements to entries, sorted by name."""
    found = {strip_hashes(entry): entry for entry in entries}
    return dict(sorted(found.items(), key=lambda item: (package_name(item[0]), item[0])))


def strip_hashes(entry: str) -> str:
    """Return an entry's `name==version ; marker` without the hashes."""
    return entry.split("\\")[0].strip()


def render(everything: dict[str, str], groups: dict[str, dict[str, str]]) -> str:
    """Render the entries under the groups that need them; development dependencies go under dev."""
    under: dict[tuple[str, ...], list[str]] = defaultdict(list)
    names = {group: {package_name(requirement) for requirement in packages} for group, packages in groups.items()}
    for requirement, entry in everything.items():
        needing = tuple(group for group in (CORE, *EXTRAS) if package_name(requirement) in names[group])
        under[(CORE,) if CORE in needing else needing or ("dev",)].append(entry)
    ordered = sorted(under, key=lambda needing: (needing != (CORE,), needing == ("dev",), needing))
    return "".join(f"\n# [{' '.join(needing)}]\n" + "\n".join(under[needing]) + "\n" for needing in ordered)


def without_pins(pyproject: str) -> str:
    """Remove the generated pins from pyproject.toml."""
    return re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), "", pyproject, flags=re.DOTALL)


def with_pins(pyproject: str, everything: dict[str, str]) -> str:
    """Pin uv to the versions of the lock in pyproject.toml."""
    pins = "".join(f'    "{requirement}",\n' for requirement in everything)
    block = f"{BEGIN}constraint-dependencies = [\n{pins}]\n{END}"
    return without_pins(pyproject).replace("[tool.uv]\n", f"[tool.uv]\n{block}", 1)


def find_lock_problems(root: Path) -> list[str]:
    """List what is wrong with the lock files of a checkout, without network access."""
    problems = [
        f"{path.relative_to(root)} contains a URL ({found[0].strip()}); regenerate it with ./duly lock"
        for path in list_lock_files(root)
        if (found := URL.search(path.read_text()))
    ]
    pyproject = tomllib.loads((root / "pyproject.toml").read_text())
    locked = {strip_hashes(entry) for _, entry in parse_lock((root / "requirements.lock").read_text())}
    if locked != set(pyproject["tool"]["uv"].get("constraint-dependencies", [])):
        problems.append("requirements.lock and the pins in pyproject.toml differ; run ./duly lock")
    missing = list_dependencies(pyproject) - {package_name(requirement) for requirement in locked}
    if missing:
        problems.append(
            f"pyproject.toml requires {', '.join(sorted(missing))}, which is not in the lock; run ./duly lock"
        )
    return problems


def list_lock_files(root: Path) -> list[Path]:
    """List the lock files that git tracks, or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *LOCK_FILES]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if listed.returncode:
        raise Misconfigured(f"git cannot list the lock files of {root}: {listed.stderr.strip()}")
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


def list_dependencies(pyproject: dict[str, Any]) -> set[str]:
    """Return the names of all direct dependencies."""
    project: dict[str, Any] = pyproject["project"]
    lists: list[list[str]] = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        *pyproject["dependency-groups"].values(),
    ]
    specifiers = [specifier for group in lists for specifier in group]
    names = {re.split(r"[^A-Za-z0-9._-]", specifier)[0] for specifier in specifiers}
    return {name.lower().replace("_", "-") for name in names} - {"duly"}
