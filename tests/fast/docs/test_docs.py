"""The pages say what is there."""

import re
from pathlib import Path

from duly.applications import ALL
from duly.cli.app import list_commands
from duly.errors import DulyError, Misconfigured, Refused
from duly.launcher import ROOT
from duly.settings import Settings, variable_names

MAX_LINE_LENGTH = 120
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    if not {".venv", ".duly"} & set(page.relative_to(ROOT).parts)
)


def test_every_relative_link_in_the_docs_has_a_target() -> None:
    links = [(page, target) for page in PAGES for target in re.findall(r"\]\(([^)#]+)\)", page.read_text())]
    assert links
    offenders = [
        f"{page.relative_to(ROOT)}: {target} is not there"
        for page, target in links
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert not offenders, "\n".join(offenders)


def test_prose_of_the_docs_is_wrapped() -> None:
    # CHANGELOG has one line per change, and the figures that README quotes are compared as lines.
    pages = [page for page in PAGES if page.name != "CHANGELOG.md" and page.parent.name != "figures"]
    offenders = [
        f"{page.relative_to(ROOT)}: {line[:60]}…"
        for page in pages
        for line in prose_of(page)
        if len(line) > MAX_LINE_LENGTH and " " in line.strip("-* ")[:MAX_LINE_LENGTH]
    ]
    assert not offenders, "\n".join(offenders)


def prose_of(page: Path) -> list[str]:
    """Return the lines of a page that are neither code nor a table, nor written by a generator."""
    text = re.sub(r"^ *```.*?^ *```$|<!--.*?-->\n- .*?(?=<!--)", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [line for line in text.splitlines() if not line.startswith(("|", "#", "    ", "`"))]


def test_every_setting_is_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    for name in Settings.model_fields:
        for variable in variable_names(name):
            assert f"`{variable}`" in page


def test_every_error_code_is_documented() -> None:
    page = (ROOT / "docs" / "errors.md").read_text()
    errors = DulyError.__subclasses__() + Misconfigured.__subclasses__() + Refused.__subclasses__()
    offenders = [
        f"{error.__name__}: docs/errors.md has no heading '## {error.code}'"
        for error in errors
        if f"## {error.code}\n" not in page
    ]
    assert not offenders, "\n".join(offenders)


def test_commands_in_the_readme_exist() -> None:
    named = set(re.findall(r"(?:\./)?duly ([a-z]+)\b", "\n".join(code_of(ROOT / "README.md"))))
    assert {"up", "test"} <= named <= {command.name for command in list_commands(ALL)}


def code_of(page: Path) -> list[str]:
    text = page.read_text()
    return [*re.findall(r"```console\n(.*?)```", text, re.DOTALL), *re.findall(r"`(\./duly [^`]+)`", text)]


def test_no_test_sleeps_or_skips_without_a_reason() -> None:
    for file in (ROOT / "tests").rglob("*.py"):
        text = file.read_text()
        assert not re.search(r"\b(time|asyncio)\.sleep\(", text), file
        assert not re.search(r"pytest\.(mark\.)?skip(if)?\(\s*\)", text), file
        assert not re.search(r"@pytest\.mark\.skip\b(?!if)", text), file


def test_decision_records_are_numbered_without_gaps() -> None:
    numbers = [int(page.name[:4]) for page in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_architecture_page_lists_every_package() -> None:
    packages = {path.name for path in (ROOT / "src" / "duly").iterdir() if any(path.glob("*.py"))}
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert {package for package in packages if f"{package}/" not in page} == set()
