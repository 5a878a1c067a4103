"""The page of the HTTP API says the default and the bounds of every field of a job's request."""

import re
from collections.abc import Iterator
from typing import Any

from duly.http.job_models import EnqueueRequest
from duly.launcher import ROOT

PAGE = ROOT / "docs" / "api.md"
FIELDS = EnqueueRequest.model_json_schema()["properties"]
BOUNDS = ("default", "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength")
NUMBER = re.compile(r"-?\d+")
SAME_AS = re.compile(r"\| as `(\w+)` \|")


def rows() -> dict[str, str]:
    """Return the rows of the page's table of fields, by field."""
    _, _, table = PAGE.read_text().partition("\n## Fields of a request\n")
    lines = [line for line in table.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    by_field = {line.split("`")[1]: line for line in lines}
    return {name: SAME_AS.sub(lambda same: by_field[same[1]], line) for name, line in by_field.items()}


def numbers_in(schema: dict[str, Any]) -> Iterator[int]:
    """Yield the numbers of a field's schema: its default and its bounds."""
    yield from (int(schema[bound]) for bound in BOUNDS if isinstance(schema.get(bound), int | float))
    for part in schema.get("anyOf", ()):
        yield from numbers_in(part)


def test_every_field_of_a_request_has_a_row() -> None:
    assert sorted(rows()) == sorted(FIELDS)


def test_the_row_of_a_field_says_its_default_and_bounds() -> None:
    offenders = [
        f"{name}: {number} is not in its row: {row}"
        for name, row in rows().items()
        for number in numbers_in(FIELDS[name])
        if str(number) not in NUMBER.findall(row)
    ]
    assert not offenders, "\n".join(offenders)
