"""Scripts of SQL: their placeholders, and their statements one by one.

In a script, `{worker}` stands for the name of a role, quoted, and `{'worker'}` for the same name as a text value; the
names come from the settings, and `{ingest}` is DB_SCHEMA.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from psycopg import sql

from duly.errors import Misconfigured
from duly.settings import Settings

DIRECTORY = Path(__file__).parent
MIGRATION_LOCK = 0x64756C79_6D696772  # "duly" "migr"
PLACEHOLDER = re.compile(r"\{(')?([a-z]+)(?(1)')\}")
# A comment, a string, a quoted name, the body of a function: a semicolon inside one of them ends no statement.
TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'[^']*'|"[^"]*"|(?P<tag>\$[a-z_]*\$).*?(?P=tag)|\bbegin\s+atomic\b.*?\bend\s*(?=;)"""
    r"""|(?P<end>;)|[^-/'"$;b]+|.""",
    re.DOTALL | re.IGNORECASE,
)
COMMENT = re.compile(r"(?>\s+|--[^\n]*|/\*.*?\*/)*+", re.DOTALL)


@dataclass(frozen=True)
class Names:
    """The names that differ between installations: of the four roles, and of the schema of the ingest tables."""

    owner: str = "duly_owner"
    worker: str = "duly_worker"
    api: str = "duly_api"
    readonly: str = "duly_readonly"
    ingest: str = "schedule_ingest"


def names_from_settings(settings: Settings) -> Names:
    """Return the names that these settings give."""
    return Names(
        settings.owner_role, settings.worker_role, settings.api_role, settings.readonly_role, settings.db_schema
    )


def fill(statements: str, values: Mapping[str, str]) -> str:
    """Replace each placeholder in the statements by its name or value, quoted."""

    def quote(placeholder: re.Match[str]) -> str:
        value = values[placeholder[2]]
        return sql.Literal(value).as_string(None) if placeholder[1] else sql.Identifier(value).as_string(None)

    return PLACEHOLDER.sub(quote, statements)


def to_array(values: Iterable[str], separator: str = ",") -> str:
    """Format values as PostgreSQL reads an array of text; the separator is a comma, and white space if wanted."""
    return "{" + separator.join('"' + re.sub(r'(["\\])', r"\\\1", value) + '"' for value in values) + "}"


def split_statements(script: str) -> Iterator[str]:
    """Split a script into statements, each with the comment before it."""
    start = 0
    for token in TOKEN.finditer(script + ";"):
        if token["end"]:
            statement, start = script[start : token.start()].strip(), token.end()
            if not COMMENT.fullmatch(statement):
                yield statement


def strip_comment(statement: str) -> str:
    """Return a statement without the comment before it."""
    found = COMMENT.match(statement)
    return statement[found.end() :] if found else statement


def read_file(name: str) -> str:
    """Read one file of the `sql` directory."""
    file = DIRECTORY / "sql" / name
    if not file.exists():
        raise Misconfigured(f"{file} is missing: write the SQL of this revision there, even if it is empty")
    return file.read_text()
