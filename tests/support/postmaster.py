"""The first process of an embedded server."""

from pathlib import Path


def postmaster_of(home: Path) -> int:
    """The number of the process that runs the server of this home, as the server itself noted it."""
    return int((home / "data" / "postmaster.pid").read_text().splitlines()[0])
