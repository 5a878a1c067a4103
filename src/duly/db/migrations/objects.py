"""Functions, triggers, policies, views and grants: applied again when their text changed, found by a hash per object.

The grants of a branch are one object, applied again after every change of another one. Before them, what PUBLIC and
duly's own roles may do is taken back; what an administrator granted to others stays.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from duly.db.migrations.branches import BRANCHES, list_schemas
from duly.db.migrations.script import Names, fill, read_file, split_statements, strip_comment, to_array
from duly.db.queries import parse_queries

TEMPLATES = parse_queries(Path(__file__).with_name("objects.sql").read_text())
GRANTS = "grants"
OBJECT = re.compile(
    r"(?:create(?: or replace)?|drop|alter|comment on) (function|trigger|policy|view|table) (?:if exists )?"
    r"([^\s(]+)(?:.*?\bon (\S+))?",
    re.DOTALL,
)
BLOCK = re.compile(r"do \$(\w+)\$")


@dataclass(frozen=True)
class SchemaObject:
    """Everything that the files of a branch say about one object, in the order in which it is run."""

    name: str
    statements: tuple[str, ...]

    @cached_property
    def sha256(self) -> str:
        """The hash of its text; the comments before the statements do not count."""
        return hashlib.sha256("\0".join(map(strip_comment, self.statements)).encode()).hexdigest()


def name_object(statement: str) -> str:
    """Name the object that a statement is about."""
    text = strip_comment(statement)
    if text.startswith(("grant ", "revoke ")):
        return GRANTS
    if block := BLOCK.match(text):
        return f"block {block[1]}"
    found = OBJECT.match(text)
    assert found, f"a file of functions holds functions, triggers, policies, views and grants, not: {text[:80]}"
    object_type, name, table = found.groups()
    return f"{object_type} {name} on {table}" if object_type in ("trigger", "policy") else f"{object_type} {name}"


def list_objects(branch: str, names: Names) -> Sequence[SchemaObject]:
    """List the objects of a branch in the order of its files, the grants last."""
    found: dict[str, list[str]] = {}
    for file in BRANCHES[branch].files():
        for statement in split_statements(fill(file.read_text(), asdict(names))):
            found.setdefault(name_object(statement), []).append(statement)
    revoke = fill(read_file("revoke.sql"), schema_values(names, [branch]))
    grants = [*split_statements(revoke), *found.pop(GRANTS, [])]
    return [SchemaObject(name, tuple(statements)) for name, statements in (*found.items(), (GRANTS, grants))]


def changed_objects(branch: str, names: Names, known: Mapping[str, str]) -> Sequence[SchemaObject]:
    """List the objects whose hash is not the known one; if there is any, the grants are the last of them."""
    objects = list_objects(branch, names)
    changed = [each for each in objects if known.get(each.name) != each.sha256]
    return [*(each for each in changed if each.name != GRANTS), objects[-1]] if changed else []


def update_statements(branch: str, names: Names, known: Mapping[str, str]) -> Iterator[str]:
    """Yield the statements that bring the objects of a branch to their present text, and record their hashes."""
    changed = changed_objects(branch, names, known)
    for each in changed:
        yield from each.statements
    if changed:
        values = {
            "branch": branch,
            "objects": to_array((each.name for each in changed), separator=",\n"),
            "hashes": to_array((each.sha256 for each in changed), separator=",\n"),
        }
        yield fill(TEMPLATES["record_hashes"], values)


def known_hashes_query(branch: str) -> str:
    """Return the query for the hashes of a branch."""
    return fill(TEMPLATES["list_known_hashes"], {"branch": branch})


def forget_statement(installed: Iterable[str]) -> str:
    """Return the statement that forgets the objects of branches that are not installed."""
    return fill(TEMPLATES["forget_removed_branches"], {"branches": to_array(installed)})


def schema_values(names: Names, branches: Iterable[str]) -> dict[str, str]:
    """Return the values of a script about whole schemas: `{'schemas'}` is an array of those of these branches."""
    return {**asdict(names), "schemas": to_array(list_schemas(branches, names))}
