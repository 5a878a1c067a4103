"""The branches of the schema: the engine and its applications, each with its schemas and its packages.

A revision holds types, tables and indexes. What stands on them, functions, guards, policies and grants, is the present
text of `functions.sql` and `guards.sql` in each package.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from duly.db.migrations.script import Names

PACKAGES = Path(__file__).parents[2]  # of duly
FILES = ("functions.sql", "guards.sql")
INGEST = "ingest"


@dataclass(frozen=True)
class Branch:
    """A part of the schema that is installed, upgraded and removed by its name."""

    name: str
    schemas: tuple[str, ...]  # that of ingest has the name that DB_SCHEMA gives
    packages: tuple[str, ...]  # directories, in the order in which their files are applied
    shared_schemas: tuple[str, ...] = ()  # created where they are missing; others may own them

    def schemas_in(self, names: Names) -> tuple[str, ...]:
        """Return its schemas by their configured names."""
        return (names.ingest,) if self.name == INGEST else self.schemas

    def files(self) -> list[Path]:
        """List the files of its functions, guards, policies and grants."""
        candidates = (PACKAGES / package / name for package in self.packages for name in FILES)
        return [file for file in candidates if file.exists()]


ENGINE = Branch("engine", ("duly", "ledger"), ("db", "accounts", "lease", "worker", "outbox", "jobs"))
APPLICATIONS = (
    Branch("posts", ("posts",), ("apps/posts",)),
    Branch("scheduler", ("scheduler", "expense"), ("apps/scheduler",), ("user",)),
    Branch(INGEST, (Names().ingest,), ("apps/ingest",)),
)
BRANCHES = {branch.name: branch for branch in (ENGINE, *APPLICATIONS)}


def list_schemas(branches: Iterable[str], names: Names) -> Sequence[str]:
    """List the schemas of these branches by their configured names."""
    return [schema for branch in branches for schema in BRANCHES[branch].schemas_in(names)]
