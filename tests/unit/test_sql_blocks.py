"""SQL lives in `.sql` files beside its caller: every block has its function, every function its block, nowhere else."""

import ast
from pathlib import Path

import pytest

from duly.db.queries import Queries
from duly.launcher import ROOT
from duly.verify.invariants import INVARIANTS
from tests.support.sql_blocks import (
    ASSEMBLED,
    Loader,
    called,
    calls_in,
    loaders_of,
    names_said_in,
    statements_in,
    strangers_of,
    texts_in,
    uses_of,
)

PACKAGE = ROOT / "src" / "duly"
MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = sorted(PACKAGE.rglob("*.sql"))
MIGRATIONS = PACKAGE / "db" / "migrations"

# Modules where a statement and its function may be called differently, and why.
NAMED_OTHERWISE = {
    "db/fingerprint.py": "one function, whose name is the module's; the statement says what it does",
}
# The statements that stand in Python, and why.
SAID_IN_PYTHON = {
    ("api/app.py", "select 1"): "asks whether anybody answers; there is no law to state",
    ("worker/wakeup.py", "select 1"): "likewise",
    ("worker/wakeup.py", "listen {}"): "a word of the protocol, of which only the channel's name varies",
    (
        "db/pool.py",
        "select pg_backend_pid(), current_setting('default_transaction_isolation')",
    ): "a word of the protocol: who am I talking to?",
    ("db/pool.py", "set local role {}"): "opens a transaction; every statement after it is in a file",
    ("verify/invariants.py", "set transaction isolation level"): "likewise",
    ("db/location.py", "alter role {} login"): "of this only the role's name varies",
    ("db/supabase.py", "do $closing$"): "never executed by us: the end of every file that is compiled for Supabase",
}


def place(path: Path) -> str:
    """A path as it is written here."""
    return path.relative_to(PACKAGE).as_posix()


LOADERS = [loader for module in MODULES for loader in loaders_of(module, module.read_text())]
OF_QUERIES = [loader for loader in LOADERS if loader.how == "load_queries"]
OF_TEMPLATES = [loader for loader in LOADERS if loader.how == "parse_queries"]


@pytest.mark.parametrize("file", [file for file in FILES if file.parent != MIGRATIONS / "sql"], ids=place)
def test_every_file_of_sql_is_read_by_one_module_beside_it(file: Path) -> None:
    if "-- name: " in file.read_text():
        assert [loader.file for loader in LOADERS].count(file) == 1
    else:
        beside = [module for module in MODULES if module.parent == file.parent]
        assert sum(file.name in set(texts_in(ast.parse(module.read_text()))) for module in beside) == 1


@pytest.mark.parametrize("file", sorted((MIGRATIONS / "sql").glob("*.sql")), ids=lambda file: file.name)
def test_every_file_of_a_migration_is_run_by_the_revision_of_its_name(file: Path) -> None:
    revision = MIGRATIONS / "versions" / f"{file.name.split('.')[0]}.py"
    calls = [call for call in calls_in(ast.parse(revision.read_text())) if called(call) == "run_file"]
    assert [file.name in texts_in(call) for call in calls].count(True) == 1


@pytest.mark.parametrize("loader", OF_QUERIES, ids=str)
def test_every_statement_that_is_asked_for_is_there_and_every_one_there_is_asked_for(loader: Loader) -> None:
    assert {name for name, _ in uses_of(loader)} == loader.blocks()


@pytest.mark.parametrize("loader", OF_QUERIES, ids=str)
def test_no_statement_hides_behind_a_word_of_the_loader(loader: Loader) -> None:
    assert not loader.blocks() & {*dir(Queries), *Queries.__dataclass_fields__}


@pytest.mark.parametrize("loader", [each for each in OF_QUERIES if place(each.module) not in NAMED_OTHERWISE], ids=str)
def test_every_block_has_its_function_and_every_function_its_block(loader: Loader) -> None:
    assert list(strangers_of(loader)) == []


@pytest.mark.parametrize("loader", OF_TEMPLATES, ids=str)
def test_every_template_is_rendered_by_its_name_and_every_one_rendered_is_there(loader: Loader) -> None:
    assert loader.blocks() - names_said_in(loader.tree) == set()
    rendering = [call for call in calls_in(loader.tree) if called(call) in {"render", "template"}]
    names = {text for call in rendering for text in call.args if isinstance(text, ast.Constant)}
    assert {name.value for name in names} <= loader.blocks()


def test_every_invariant_is_checked() -> None:
    (loader,) = [loader for loader in LOADERS if loader.how == "load_invariants"]
    assert {invariant.name for invariant in INVARIANTS} == loader.blocks()


def reason_for(module: Path, said: str) -> str | None:
    """Why this statement may stand in this module; None when it may not."""
    reasons = SAID_IN_PYTHON.items()
    return next((why for (name, opening), why in reasons if name == place(module) and said.startswith(opening)), None)


@pytest.mark.parametrize("module", MODULES, ids=place)
def test_no_statement_stands_in_python_but_for_a_few_with_a_reason(module: Path) -> None:
    assert [said for said in statements_in(module.read_text()) if not reason_for(module, said)] == []


def test_every_exception_is_still_needed() -> None:
    modules = {place(module): module for module in MODULES}
    for name, opening in SAID_IN_PYTHON:
        assert any(said.startswith(opening) for said in statements_in(modules[name].read_text())), (name, opening)
    for name in NAMED_OTHERWISE:
        assert any(list(strangers_of(loader)) for loader in OF_QUERIES if place(loader.module) == name), name


# That nothing escapes them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("connection.execute('show x')", ["show x"]),
        ("connection.execute(b'show x')", ["show x"]),
        ("connection.execute(sql.SQL('drop table {}').format(x))", ["drop table {}"]),
        ("connection.execute(f'drop table {x}')", [ASSEMBLED]),
        ("connection.execute('drop table ' + x)", [ASSEMBLED]),
        ("connection.execute('drop table %s' % x)", [ASSEMBLED]),
        ("connection.execute('drop table {}'.format(x))", [ASSEMBLED]),
        ("connection.execute(sql.SQL(f'drop table {x}'))", [ASSEMBLED]),
        ("ASKED = 'select 1'\nasync def f():\n    await find_row(c, ASKED, x=1)", ["select 1"]),
        ("ASKED: Final = 'select 1'\nc.execute(ASKED if x else 'select 2')", ["select 1", "select 2"]),
        (
            "TEXT = '''\\ncreate table t ();\\ninsert into t default values;'''",
            ["create table t (); insert into t default values;"],
        ),
        ("connection.execute(SQL.find_thing, {'x': 'select'})", []),
        ("sql.SQL(', ').join([sql.SQL('{} = {}')])", []),
        ("print(f'grant {role} to {login}')", []),
        ("def f():\n    '''Select;\\n\\n    something.'''", []),
    ],
)
def test_a_statement_in_python_is_found(source: str, found: list[str]) -> None:
    assert list(statements_in(source)) == found


STORE = """\
SQL = load_queries(__file__)

async def find_thing(connection, name):
    return await find_row(connection, SQL.find_thing, name=name)

async def find_two(connection, name):
    return await find_thing(connection, name), await find_thing(connection, name)
"""
BLOCK = "-- name: {}\n-- Law.\nselect 1;\n"


@pytest.mark.parametrize(
    ("blocks", "more", "strangers"),
    [
        (["find_thing"], "", []),
        (["find_thing", "orphan"], "", ["nobody asks orphan"]),
        (["find_thing"], "async def other(c):\n    await c.execute(SQL.find_thing)\n", ["other asks find_thing"]),
        (["find_thing", "x"], "class A:\n    def x(self, c):\n        c.execute(SQL.using(s='t').x)\n", []),
        (["find_thing", "x"], "def x(c, q: Queries):\n    c.execute(q.x)\n", []),
        (["find_thing", "x"], "HERE = SQL.using(s='t')\ndef y(c):\n    c.execute(HERE.x)\n", ["y asks x"]),
        (["find_thing", "x"], "ASKED = SQL.x\n", ["the module asks x"]),
    ],
)
def test_a_block_and_a_function_without_each_other_are_found(
    blocks: list[str], more: str, strangers: list[str], tmp_path: Path
) -> None:
    (tmp_path / "queries.sql").write_text("".join(BLOCK.format(name) for name in blocks))
    (loader,) = loaders_of(tmp_path / "store.py", STORE + more)
    assert [each for each in strangers_of(loader) if "has no block" not in each] == strangers


def test_a_function_that_speaks_without_a_block_is_found(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(BLOCK.format("find_thing"))
    (loader,) = loaders_of(tmp_path / "store.py", STORE + "def bad(c, statement):\n    c.execute(statement)\n")
    assert list(strangers_of(loader)) == ["bad speaks to the database and has no block"]


def test_a_template_that_nobody_renders_is_found() -> None:
    names = "def names():\n    clock = 'since' if x else 'until'\n    return f'{clock}_{part}', 'stamp'\n"
    tree = ast.parse("__all__ = ['claim']\n" + names)
    assert {"since_stamp", "until_stamp"} <= names_said_in(tree)
    assert not {"since_freed", "claim"} & names_said_in(tree)
