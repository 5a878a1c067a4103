"""The page of the public API lists what users import, and stays short."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from duly.launcher import ROOT
from tests.support.golden import check_golden
from tools.public_api_page import MAX_NAMES, PUBLIC_MODULES, list_names, render_page

PAGE = ROOT / "docs" / "public-api.md"
CODE_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.golden
def test_public_api_page_lists_the_public_names() -> None:
    check_golden(PAGE, render_page())


def test_the_public_api_is_small_and_documented() -> None:
    names = [(f"{module}.{name}", summary) for module in PUBLIC_MODULES for name, summary in list_names(module)]
    assert 60 < len(names) <= MAX_NAMES
    assert [name for name, summary in names if not summary] == []


def imports_in(code: str) -> Iterator[tuple[str, str]]:
    """List what a program imports from duly: the module, and the name."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "duly":
            yield from ((node.module or "", alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "duly")


def programs() -> Iterator[tuple[Path, str]]:
    """List the programs that users are shown: the examples, and the code of the pages."""
    yield from ((file, file.read_text()) for file in (ROOT / "examples").rglob("*.py"))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    yield from ((page, code) for page in pages for code in CODE_BLOCK.findall(page.read_text()))


def test_documented_programs_import_only_public_names() -> None:
    public = {(module, name) for module in PUBLIC_MODULES for name, _ in list_names(module)}
    imported = [(file, found) for file, code in programs() for found in imports_in(code)]
    assert len(imported) > 3
    offenders = [
        f"{file.relative_to(ROOT)}: {module} {name}"
        for file, (module, name) in imported
        if (module, name) not in public and not (name == "" and module in PUBLIC_MODULES)
    ]
    assert not offenders, "\n".join(offenders)
