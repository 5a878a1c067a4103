"""The list, the removal of words from a file, and the page: without a database."""

from duly.launcher import ROOT
from tests.proof.guards.report import Removed, page_of, summary_of
from tests.proof.guards.statements import mutations

REMOVED = Removed("trigger", "trigger a of b.c", "drop trigger a on b.c", "attack: a second row")
UNNOTICED = Removed("owner", "owner of settle in x.sql", "x.sql: true", None)


def test_no_two_guards_have_one_name() -> None:
    names = [str(each) for each in mutations()]
    assert len(names) == len(set(names)) > 30


def test_a_mutation_takes_out_its_own_words_and_no_others() -> None:
    for each in mutations():
        text = (ROOT / each.file).read_text()
        words = text[each.start : each.end]
        assert words == " skip locked" if each.kind == "skip locked" else words.endswith((".owner", "%(owner)s"))
        changed = each.applied(text)
        assert changed[: each.start] + words + changed[each.start + len(each.instead) :] == text


def test_what_was_removed_unnoticed_is_named() -> None:
    assert "No guard was removed unnoticed." in summary_of([REMOVED])
    told = summary_of([REMOVED, UNNOTICED])
    assert "| **all** | **2** | **1** |" in told
    assert "Removed unnoticed: owner of settle in x.sql." in told


def test_the_page_has_a_line_for_each() -> None:
    page = page_of([REMOVED, UNNOTICED], "abc", "2026-01-01", 1.0, "18.0")
    assert "| trigger a of b.c | `drop trigger a on b.c` | attack: a second row |" in page
    assert "| owner of settle in x.sql | `x.sql: true` | **nothing** |" in page
