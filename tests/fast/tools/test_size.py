"""Each part of the package stays within its budget of lines, and each file within 400 (ADR 45)."""

from collections import Counter
from pathlib import Path

from duly.launcher import ROOT

PACKAGE = ROOT / "src" / "duly"
MAX_FILE_LINES = 400
BUDGETS = {
    "": 3_000,  # the modules beside the packages
    "accounts": 950,
    "apps": 20_000,
    "cli": 3_300,
    "configuration": 700,
    "db": 3_250,
    "doctor": 1_500,
    "executors": 600,
    "http": 1_800,
    "integrations": 300,
    "jobs": 2_600,
    "lease": 1_000,
    "outbox": 1_750,
    "storage": 800,
    "telegram": 1_650,
    "testing": 950,
    "verify": 750,
    "worker": 2_500,
}


def count_lines(file: Path) -> int:
    """Count the lines of a file."""
    return len(file.read_text().splitlines())


def test_every_part_stays_within_its_budget_of_lines() -> None:
    parts: Counter[str] = Counter()
    for file in PACKAGE.rglob("*.py"):
        folder = file.relative_to(PACKAGE).parts[:-1]
        parts[folder[0] if folder else ""] += count_lines(file)
    over = {part: f"{lines} of {BUDGETS.get(part, 0)}" for part, lines in parts.items() if lines > BUDGETS.get(part, 0)}
    assert not over, "shrink the part, or raise its budget and say why in the commit"
    assert sorted(parts) == sorted(BUDGETS)


def test_no_file_has_more_than_400_lines() -> None:
    long = {str(file.relative_to(ROOT)) for file in PACKAGE.rglob("*.py") if count_lines(file) > MAX_FILE_LINES}
    assert not long
