"""SQL lives in `.sql` files beside its caller: every block has its function, every function its block, nowhere else."""

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from duly.db.migrations import BRANCHES
from duly.db.queries import Queries, parse_queries
from duly.launcher import ROOT
from duly.verify.invariants import INVARIANTS
from tests.support.sql_blocks import (
    ASSEMBLED,
    Loader,
    called_name,
    calls_in,
    find_loaders,
    find_mismatches,
    find_uses,
    statements_in,
    text_constants,
    texts_in,
)

PACKAGE = ROOT / "src" / "duly"
MODULES = sorted(PACKAGE.rglob("*.py"))
FILES = sorted(PACKAGE.rglob("*.sql"))
MIGRATIONS = PACKAGE / "db" / "migrations"
LEASE = "lease.sql"
RUNNERS = ("run_file", "run_after_functions", "read_file")

# Modules where a statement and its function may be called differently, and why.
NAMED_OTHERWISE = {
    "db/fingerprint.py": "one function, whose name is the module's; the statement says what it does",
}
# The statements that stand in Python, and why.
SQL_ALLOWED_IN_PYTHON = {
    ("http/app.py", "select 1"): "checks that the server answers; there is no rule to state",
    ("worker/listener.py", "select 1"): "likewise",
    ("worker/control.py", "select 1"): "likewise",
    ("db/pool.py", ""): "an empty query, to see whether a connection lives",
    ("worker/listener.py", "listen {}"): "a word of the protocol, of which only the channel's name varies",
    (
        "db/pool.py",
        "select pg_backend_pid(), current_setting('default_transaction_isolation')",
    ): "a word of the protocol: who am I talking to?",
    ("db/pool.py", "set local role {}"): "opens a transaction; every statement after it is in a file",
    ("verify/invariants.py", "set transaction isolation level"): "likewise",
    ("db/location.py", "alter role {} login"): "of this only the role's name varies",
}


def relative_path(path: Path) -> str:
    """A path as it is written here."""
    return path.relative_to(PACKAGE).as_posix()


@pytest.fixture(scope="module")
def loaders() -> Sequence[Loader]:
    """Find what every module loads: each is parsed once for all the tests here."""
    return [loader for module in MODULES for loader in find_loaders(module, module.read_text())]


@pytest.fixture(scope="module")
def query_loaders(loaders: Sequence[Loader]) -> Sequence[Loader]:
    """Those of statements whose functions are beside them; those of leases run by the functions of `duly.lease` too."""
    return [loader for loader in loaders if loader.how == "load_queries" and loader.file.name != LEASE]


@pytest.fixture(scope="module")
def lease_loaders(loaders: Sequence[Loader]) -> Sequence[Loader]:
    """Those of the statements of leased tables."""
    return [loader for loader in loaders if loader.file.name == LEASE]


@pytest.fixture(scope="module")
def statements() -> dict[Path, Sequence[str]]:
    """Find the statements that stand in each module's Python: all are parsed once for the two tests that ask."""
    return {module: statements_in(module.read_text()) for module in MODULES}


def readers_of(file: Path, loaders: Sequence[Loader]) -> list[str]:
    """Name the modules that load a file's blocks, or, when it has none, those beside it that say its name."""
    if "-- name: " in file.read_text():
        return [relative_path(loader.module) for loader in loaders if loader.file == file]
    beside = [module for module in MODULES if module.parent == file.parent]
    return [relative_path(module) for module in beside if file.name in texts_in(ast.parse(module.read_text()))]


def test_every_sql_file_is_loaded_by_one_adjacent_module(loaders: Sequence[Loader]) -> None:
    objects = {file for branch in BRANCHES.values() for file in branch.files()}
    read_elsewhere = objects | {
        file for file in FILES if file.parent == MIGRATIONS / "sql" or file.name == "invariants.sql"
    }
    readers = {file: readers_of(file, loaders) for file in FILES if file not in read_elsewhere}
    assert readers
    offenders = [
        f"{relative_path(file)}: read by {found}, expected one module"
        for file, found in readers.items()
        if len(found) != 1
    ]
    assert not offenders, "\n".join(offenders)


def test_every_file_of_functions_and_guards_belongs_to_one_branch() -> None:
    named = [file for branch in BRANCHES.values() for file in branch.files()]
    assert sorted(named) == sorted(file for file in FILES if file.name in ("functions.sql", "guards.sql"))


def test_no_line_of_sql_is_longer_than_120_characters() -> None:
    tops = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    files = [file for top in tops for file in sorted(top.rglob("*.sql"))]
    assert {file.relative_to(ROOT).parts[0] for file in files} >= {"src", "supabase", "database", "tools", "tests"}
    offenders = [
        f"{file.relative_to(ROOT)}:{nth}: {len(line)} characters"
        for file in files
        for nth, line in enumerate(file.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not offenders, "\n".join(offenders)


def runs_of(file: Path) -> int:
    """Count the calls that run a migration's file in the revision of its name, or in the modules that run them all."""
    revision = MIGRATIONS / "versions" / f"{file.name.split('.')[0]}.py"
    runners = (
        [revision] if revision.exists() else [MIGRATIONS / f"{name}.py" for name in ("__init__", "objects", "run")]
    )
    trees = [ast.parse(runner.read_text()) for runner in runners]
    calls = [call for tree in trees for call in calls_in(tree) if called_name(call) in RUNNERS]
    return [file.name in texts_in(call) for call in calls].count(True)


def test_every_migration_file_is_run_by_its_revision() -> None:
    runs = {file.name: runs_of(file) for file in sorted((MIGRATIONS / "sql").glob("*.sql"))}
    assert runs
    offenders = [f"{name}: run {times} times, expected once" for name, times in runs.items() if times != 1]
    assert not offenders, "\n".join(offenders)


def test_every_used_statement_exists_and_every_statement_is_used(
    query_loaders: Sequence[Loader],
) -> None:
    assert query_loaders
    offenders: list[str] = []
    for loader in query_loaders:
        used, blocks = {name for name, _ in find_uses(loader)}, loader.blocks()
        offenders += [f"{loader}: {name} is used and has no block" for name in sorted(used - blocks)]
        offenders += [f"{loader}: {name} has a block and is never used" for name in sorted(blocks - used)]
    assert not offenders, "\n".join(offenders)


def test_no_statement_name_collides_with_an_attribute_of_queries(query_loaders: Sequence[Loader]) -> None:
    assert query_loaders
    reserved_names = {*dir(Queries), *Queries.__dataclass_fields__}
    offenders = [
        f"{loader}: {name} is a name of Queries itself; rename the block"
        for loader in query_loaders
        for name in sorted(loader.blocks() & reserved_names)
    ]
    assert not offenders, "\n".join(offenders)


def test_every_sql_block_has_a_function_of_its_name_and_vice_versa(query_loaders: Sequence[Loader]) -> None:
    checked = [loader for loader in query_loaders if relative_path(loader.module) not in NAMED_OTHERWISE]
    assert checked
    offenders = [f"{loader}: {unmatched_name}" for loader in checked for unmatched_name in find_mismatches(loader)]
    assert not offenders, "\n".join(offenders)


def lease_statements_in(module: Path) -> set[str]:
    """Name the statements of a leased table that a module runs: `table.statements.claim`, or `statements.claim`."""
    return set(re.findall(r"\bstatements\.(\w+)", module.read_text()))


def test_every_statement_of_a_lease_is_run_and_every_one_that_is_run_is_there(
    lease_loaders: Sequence[Loader],
) -> None:
    shared = lease_statements_in(PACKAGE / "lease" / "operations.py")
    assert shared
    assert lease_loaders
    offenders: list[str] = []
    for loader in lease_loaders:
        own = set[str]().union(*map(lease_statements_in, loader.module.parent.glob("*.py")))
        offenders += [f"{loader}: {name} is never run" for name in sorted(loader.blocks() - own - shared)]
        offenders += [f"{loader}: {name} is run and not in the file" for name in sorted(own - loader.blocks())]
    assert not offenders, "\n".join(offenders)


def misrendered_by(loader: Loader) -> Iterator[str]:
    """List the templates of a module that it never renders, and those it renders that are not in its file."""
    for name in sorted(loader.blocks() - text_constants(loader.tree)):
        yield f"{loader}: {name} is never rendered"
    rendering = [call for call in calls_in(loader.tree) if called_name(call) in {"render", "template"}]
    names = {text.value for call in rendering for text in call.args if isinstance(text, ast.Constant)}
    for name in sorted(map(repr, names - loader.blocks())):
        yield f"{loader}: {name} is rendered and not in the file"


def test_every_sql_template_exists_and_is_rendered(loaders: Sequence[Loader]) -> None:
    of_templates = [loader for loader in loaders if loader.how == "parse_queries"]
    assert of_templates
    offenders = [fault for loader in of_templates for fault in misrendered_by(loader)]
    assert not offenders, "\n".join(offenders)


def test_every_invariant_beside_a_package_is_checked_once() -> None:
    written = [name for file in FILES if file.name == "invariants.sql" for name in parse_queries(file.read_text())]
    assert written
    assert sorted(invariant.name for invariant in INVARIANTS) == sorted(written)


def reason_for(module: Path, statement: str) -> str | None:
    """Why this statement may stand in this module; None when it may not."""
    reasons = SQL_ALLOWED_IN_PYTHON.items()
    return next(
        (why for (name, opening), why in reasons if name == relative_path(module) and statement.startswith(opening)),
        None,
    )


def test_sql_in_python_is_limited_to_listed_exceptions(statements: dict[Path, Sequence[str]]) -> None:
    assert statements
    offenders = [
        f"{relative_path(module)}: {statement}"
        for module, several in statements.items()
        for statement in several
        if not reason_for(module, statement)
    ]
    assert not offenders, "\n".join(offenders)


def test_every_listed_exception_for_sql_in_python_is_still_needed(
    statements: dict[Path, Sequence[str]], query_loaders: Sequence[Loader]
) -> None:
    by_name = {relative_path(module): several for module, several in statements.items()}
    for name, opening in SQL_ALLOWED_IN_PYTHON:
        assert any(statement.startswith(opening) for statement in by_name[name]), (name, opening)
    for name in NAMED_OTHERWISE:
        assert any(list(find_mismatches(loader)) for loader in query_loaders if relative_path(loader.module) == name), (
            name
        )


# That nothing escapes them --------------------------------------------------------------------------------------------


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
def test_check_finds_sql_in_python(source: str, found: list[str]) -> None:
    assert list(statements_in(source)) == found


STORE = """\
SQL = load_queries(__file__)

async def find_thing(connection, name):
    return await find_row(connection, SQL.find_thing, name=name)

async def find_two(connection, name):
    return await find_thing(connection, name), await find_thing(connection, name)
"""
BLOCK = "-- name: {}\n-- Rule.\nselect 1;\n"


@pytest.mark.parametrize(
    ("blocks", "more", "unmatched"),
    [
        (["find_thing"], "", []),
        (["find_thing", "orphan"], "", ["orphan is not used"]),
        (["find_thing"], "async def other(c):\n    await c.execute(SQL.find_thing)\n", ["other asks find_thing"]),
        (["find_thing", "x"], "class A:\n    def x(self, c):\n        c.execute(SQL.using(s='t').x)\n", []),
        (["find_thing", "x"], "def x(c, q: Queries):\n    c.execute(q.x)\n", []),
        (["find_thing", "x"], "HERE = SQL.using(s='t')\ndef y(c):\n    c.execute(HERE.x)\n", ["y asks x"]),
        (["find_thing", "x"], "ASKED = SQL.x\n", ["the module asks x"]),
    ],
)
def test_check_finds_blocks_without_functions_and_functions_without_blocks(
    blocks: list[str], more: str, unmatched: list[str], tmp_path: Path
) -> None:
    (tmp_path / "queries.sql").write_text("".join(BLOCK.format(name) for name in blocks))
    (loader,) = find_loaders(tmp_path / "store.py", STORE + more)
    assert [each for each in find_mismatches(loader) if "has no block" not in each] == unmatched


def test_check_finds_a_function_that_executes_sql_without_a_block(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(BLOCK.format("find_thing"))
    (loader,) = find_loaders(tmp_path / "store.py", STORE + "def bad(c, statement):\n    c.execute(statement)\n")
    assert list(find_mismatches(loader)) == ["bad speaks to the database and has no block"]


def test_check_finds_an_unused_template() -> None:
    names = "def names():\n    clock = 'since' if x else 'until'\n    return f'{clock}_{part}', 'stamp'\n"
    tree = ast.parse("__all__ = ['claim']\n" + names)
    assert {"since_stamp", "until_stamp"} <= text_constants(tree)
    assert not {"since_freed", "claim"} & text_constants(tree)
