"""Files whose words change only on purpose: DULY_UPDATE_GOLDEN=1 writes them anew."""

import os
from pathlib import Path

__all__ = ["check_golden"]


def check_golden(file: Path, text: str) -> None:
    """The text is what the file says; or becomes it, when asked."""
    if os.environ.get("DULY_UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
