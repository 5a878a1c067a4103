"""docs/configuration.md, generated from the settings."""

from typing import cast

from duly.configuration import Section
from duly.settings import Settings, describe_accepted, variable_names

BEGINNING = """\
# Settings

Every setting is an environment variable, read once when a command starts. A bad value is refused with its name, the
value and the fix; an empty variable counts as unset. A variable that begins with `DULY_` and is none of these is
ignored, after one warning that names the closest setting.

This page is generated from `src/duly/settings.py`; to regenerate it:
`python -m tools.generate`
"""

END = """\
## Outside the settings

The launcher reads one more: `DULY_PYTHON`, the Python (3.11 or newer) to build `.venv` with; the default is the first
that fits among `python3`, `python3.14` … `python3.11`, `python`. pip's and uv's own configuration is honoured.

`./duly test` uses none of the addresses but `TEST_DATABASE_URL`, and that only when the database's name carries the
word `test`.
"""


def render_page() -> str:
    """Render the page, with one table per section."""
    return "\n".join([BEGINNING, *map(render_section, Section), END])


def render_section(section: Section) -> str:
    """Render the heading and the table of a section."""
    rows = [render_row(name) for name in Settings.model_fields if page_metadata(name)["section"] == section]
    head = ["| variable | default | what it does | must be |", "|---|---|---|---|"]
    return "\n".join([f"## {section}", "", *head, *rows, ""])


def render_row(name: str) -> str:
    """Render a setting as a row of the table."""
    variables = ", ".join(f"`{variable}`" for variable in variable_names(name))
    description = Settings.model_fields[name].description
    accepted = describe_accepted(name).replace("_", r"\_")  # two of them would put the text between them in italics
    return f"| {variables} | {render_default(name)} | {description} | {accepted} |"


def render_default(name: str) -> str:
    """Render the default: its description, or else the value as it would be written in the environment."""
    if unset := page_metadata(name)["unset"]:
        return unset
    default = Settings.model_fields[name].get_default(call_default_factory=True, validated_data={})
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def page_metadata(name: str) -> dict[str, str]:
    """Return what a field declares for this page alone."""
    return cast("dict[str, str]", Settings.model_fields[name].json_schema_extra)
