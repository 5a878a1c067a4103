"""The list, the removal of words from a file, and the page: without a database."""

from duly.launcher import ROOT
from tests.proof.guards.report import Removed, render_page, render_summary
from tests.proof.guards.statements import mutations

REMOVED = Removed("trigger", "trigger a of b.c", "drop trigger a on b.c", "attack: a second row")
UNNOTICED = Removed("owner", "owner of settle in x.sql", "x.sql: true", None)


def test_names_of_guards_are_unique() -> None:
    names = [str(each) for each in mutations()]
    assert len(names) == len(set(names)) > 30


def test_a_mutation_removes_only_its_own_text() -> None:
    for each in mutations():
        text = (ROOT / each.file).read_text()
        removed_text = text[each.start : each.end]
        assert (
            removed_text == " skip locked"
            if each.kind == "skip locked"
            else removed_text.endswith((".owner", "%(owner)s"))
        )
        changed = each.applied(text)
        assert changed[: each.start] + removed_text + changed[each.start + len(each.replacement) :] == text


def test_the_summary_names_guards_removed_unnoticed() -> None:
    assert "No guard was removed unnoticed." in render_summary([REMOVED])
    summary = render_summary([REMOVED, UNNOTICED])
    assert "| **all** | **2** | **1** |" in summary
    assert "Removed unnoticed: owner of settle in x.sql." in summary


def test_the_guards_page_has_a_line_for_each_guard() -> None:
    page = render_page([REMOVED, UNNOTICED], "abc", "2026-01-01", 1.0, "18.0")
    assert "| trigger a of b.c | `drop trigger a on b.c` | attack: a second row |" in page
    assert "| owner of settle in x.sql | `x.sql: true` | **nothing** |" in page
