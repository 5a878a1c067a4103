"""Files whose words change only on purpose: `python -m tools.generate` sets DULY_UPDATE_GOLDEN, which writes them."""

import os
from difflib import unified_diff
from pathlib import Path

from duly.launcher import ROOT

GOLDEN = ROOT / "tests" / "golden"


def check_golden(file: Path, text: str) -> None:
    """The text is what the file says; or becomes it, when asked."""
    assert not (change := golden_change(file, text)), change


def golden_change(file: Path, text: str) -> str:
    """What differs between a text and its golden file, which is written when asked; nothing if they are equal."""
    if os.environ.get("DULY_UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    before = file.read_text() if file.exists() else ""
    if before == text:
        return ""
    lines = unified_diff(before.splitlines(), text.splitlines(), "committed", "now", n=0, lineterm="")
    return "\n".join((f"{file.name} has changed:", *lines))
