"""The page of the settings says what the settings are: DULY_UPDATE_GOLDEN=1 writes it anew."""

import os

import pytest

from duly.cli.configuration_page import render_page, render_row
from duly.launcher import ROOT
from duly.settings import Section, Settings, accepted_by

PAGE = ROOT / "docs" / "configuration.md"


def test_the_page_is_what_the_settings_say() -> None:
    if os.environ.get("DULY_UPDATE_GOLDEN"):
        PAGE.write_text(render_page())
    assert render_page() == PAGE.read_text()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_one_row(name: str) -> None:
    assert render_page().splitlines().count(render_row(name)) == 1


@pytest.mark.parametrize("section", Section)
def test_every_section_has_settings(section: Section) -> None:
    after = render_page().split(f"\n## {section}\n")[1].split("\n## ")[0]
    assert after.count("\n| `") > 0


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_row_has_a_default_and_a_sentence(name: str) -> None:
    _, variables, default, description, accepted, _ = (cell.strip() for cell in render_row(name).split("|"))
    assert variables.startswith("`")
    assert default not in ("", "`None`")
    assert description.endswith(".")
    assert accepted.replace("\\", "") == accepted_by(name)


def test_the_page_is_the_same_whatever_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    before = render_page()
    monkeypatch.setenv("WORKER_ID", "me")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:hunter2@host/name")
    assert render_page() == before
