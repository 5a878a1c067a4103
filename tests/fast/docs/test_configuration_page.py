"""The page of the settings says what the settings are."""

from collections.abc import Iterator

import pytest

from duly.configuration import Section
from duly.launcher import ROOT
from duly.settings import Settings, describe_accepted
from tests.support.golden import check_golden
from tools.configuration_page import render_page, render_row

PAGE = ROOT / "docs" / "configuration.md"


@pytest.mark.golden
def test_configuration_page_matches_the_settings() -> None:
    check_golden(PAGE, render_page())


def test_every_setting_has_one_row_on_the_configuration_page() -> None:
    lines = render_page().splitlines()
    rows = {name: lines.count(render_row(name)) for name in Settings.model_fields}
    offenders = [f"{name}: {count} rows, expected 1" for name, count in rows.items() if count != 1]
    assert not offenders, "\n".join(offenders)


def test_every_section_of_the_configuration_page_has_settings() -> None:
    page = render_page()
    parts = {section: page.partition(f"\n## {section}\n")[2].split("\n## ")[0] for section in Section}
    offenders = [f"{section}: no row below its heading" for section, part in parts.items() if "\n| `" not in part]
    assert not offenders, "\n".join(offenders)


def faults_of_row(name: str) -> Iterator[str]:
    """List what is wrong with the row of a setting."""
    cells = [cell.strip() for cell in render_row(name).split("|")]
    if len(cells) != 6:
        yield f"{name}: {len(cells) - 2} cells, expected 4: {cells}"
        return
    _, variables, default, description, accepted, _ = cells
    if not variables.startswith("`"):
        yield f"{name}: variables must begin with a backtick: {variables!r}"
    if default in ("", "`None`"):
        yield f"{name}: no default: {default!r}"
    if not description.endswith("."):
        yield f"{name}: the description must be a sentence: {description!r}"
    if accepted.replace("\\", "") != describe_accepted(name):
        yield f"{name}: accepts {describe_accepted(name)!r}, the row says {accepted!r}"


def test_every_row_of_the_configuration_page_has_a_default_and_a_description() -> None:
    offenders = [fault for name in Settings.model_fields for fault in faults_of_row(name)]
    assert not offenders, "\n".join(offenders)


def test_configuration_page_does_not_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_page()
    monkeypatch.setenv("WORKER_ID", "me")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@host/name")
    assert render_page() == before
