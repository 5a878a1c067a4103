"""Order the test files of a fault, most likely to find it first: an order changes how long it takes, never the result.

Own tests of the fault's package come first, and with them any file that names its module; among these, first the files
that name the function or the statement that the fault is in.
"""

import re
from pathlib import Path, PurePosixPath

from tools.planted_faults.faults import Fault

NAME = re.compile(
    r"^\s*(?:async def|def|class) (\w+)|^-- name: (\w+)|^create (?:or replace )?function ([\w.]+)", re.MULTILINE
)
MODULE, FUNCTION = 2, 3


def order_files(root: Path, fault: Fault, directories: tuple[str, ...]) -> list[str]:
    """Return the test files of the package of a fault and those that name its module, best first."""
    scores: dict[str, int] = {}
    for path in (path for directory in directories for path in sorted((root / directory).rglob("test_*.py"))):
        is_own = any(path.is_relative_to(root / own) for own in own_directories(fault, directories))
        if score := is_own + score_text(path.read_text(), fault, find_function(root, fault)):
            scores[str(path.relative_to(root))] = score
    return sorted(scores, key=lambda name: -scores[name])


def own_directories(fault: Fault, directories: tuple[str, ...]) -> list[str]:
    """Return the directories of the package's own tests; the statements of a lease are tested with the leases."""
    packages = {fault.package, "lease"} if fault.file.endswith("/lease.sql") else {fault.package}
    return [f"{directory}/{package}" for directory in directories for package in sorted(packages)]


def score_text(text: str, fault: Fault, function: str) -> int:
    """Score a test file by what it names."""
    path = PurePosixPath(fault.file)
    module = ".".join(path.with_suffix("").parts[1:] if path.parts[0] == "src" else path.with_suffix("").parts)
    score = MODULE if re.search(rf"\b{re.escape(module)}\b", text) else 0
    return score + (FUNCTION if function and re.search(rf"\b{re.escape(function)}\b", text) else 0)


def find_function(root: Path, fault: Fault) -> str:
    """Return the name of the function, class or statement that the fault is in, or an empty text."""
    text = (root / fault.file).read_text()
    before = text[: text.index(fault.old) + len(fault.old)]
    names = ["".join(match.groups("")) for match in NAME.finditer(before)]
    return names[-1].rpartition(".")[2] if names else ""
