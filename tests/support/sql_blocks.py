"""Reading which statements a module loads, asks for and says itself, from its syntax tree."""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from duly.db.queries import parse_queries

EXECUTE = {"execute", "executemany", "stream", "exec_driver_sql"}  # methods of connections and cursors
QUERY_HELPERS = {
    "change",
    "find_row",
    "find_value",
    "get_row",
    "get_rows",
    "get_value",
}  # duly.db.rows, after the connection
VERB = re.compile(
    r"(alter|analyze|begin|call|comment|commit|copy|create|delete|do|drop|execute|explain|grant|insert|listen|lock|merge"
    r"|notify|prepare|refresh|reindex|release|reset|revoke|rollback|savepoint|select|set|show|truncate|unlisten|update"
    r"|vacuum|values|with)\b",
    re.IGNORECASE,
)
ASSEMBLED = "(assembled from strings)"

Function = ast.FunctionDef | ast.AsyncFunctionDef
Described = ast.Module | ast.ClassDef | Function


@dataclass(frozen=True)
class Loader:
    """A module that loads a file of named blocks, and the variable it keeps them in."""

    module: Path
    tree: ast.Module
    how: str  # load_queries or parse_queries
    variable: str
    file: Path

    def __str__(self) -> str:
        return f"{self.module.parent.name}/{self.module.name}:{self.file.name}"

    def blocks(self) -> set[str]:
        """The names in the file."""
        return set(parse_queries(self.file.read_text()))


def find_loaders(module: Path, source: str) -> Iterator[Loader]:
    """What a module loads, when it is imported, from files beside it."""
    tree = ast.parse(source)
    for statement in tree.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(variable)],
                value=ast.Call(ast.Name("load_queries" | "parse_queries" as how)) as call,
            ):
                names = [name for name in texts_in(call) if name.endswith(".sql")] or ["queries.sql"]
                yield Loader(module, tree, how, variable, module.with_name(names[0]))
            case _:
                pass


def find_mismatches(loader: Loader) -> Iterator[str]:
    """Where a block and the function that asks it are not called the same, or one of the two is missing."""
    uses = list(find_uses(loader))
    for name, function in uses:
        if function != name:
            yield f"{function or 'the module'} asks {name}"
    for name in sorted(loader.blocks() - {name for name, _ in uses}):
        yield f"{name} is not used"
    for function in list_functions(loader.tree):
        runs_sql = any(
            not is_of_a_lease(constants) for call in calls_in(function) if (constants := executed_statement(call))
        )
        if runs_sql and function.name not in loader.blocks():
            yield f"{function.name} speaks to the database and has no block"


def is_of_a_lease(statement: ast.expr) -> bool:
    """Is this a statement of a leased table, `table.statements.claim`? Another test looks at these."""
    match statement:
        case ast.Attribute(value=ast.Attribute(attr="statements") | ast.Name("statements")):
            return True
        case _:
            return False


def find_uses(loader: Loader) -> Iterator[tuple[str, str | None]]:
    """Every statement that the module asks for, once per function, with the function: `SQL.x`, `SQL.using(...).x`."""
    found: dict[tuple[str, str | None], None] = {}
    enclosing = {node: function.name for function in list_functions(loader.tree) for node in ast.walk(function)}
    aliases = {loader.variable, *find_aliases(loader)}
    for node in ast.walk(loader.tree):
        if isinstance(node, ast.Attribute) and node.attr != "using" and is_queries(node.value, aliases):
            found[node.attr, enclosing.get(node)] = None
    yield from found


def find_aliases(loader: Loader) -> Iterator[str]:
    """Names for the same statements with names filled in: assigned from `SQL.using(...)`, or given as `Queries`."""
    for node in ast.walk(loader.tree):
        match node:
            case ast.Assign(targets=[ast.Name(name) | ast.Attribute(attr=name)], value=value) if is_queries(
                value, {loader.variable}
            ):
                yield name
            case ast.arg(arg=name, annotation=ast.Name("Queries")):
                yield name
            case _:
                pass


def is_queries(node: ast.expr, names: Iterable[str]) -> bool:
    """Is this the loaded statements, or the same with names filled in?"""
    match node:
        case ast.Name(name) | ast.Attribute(value=ast.Name("self"), attr=name):
            return name in names
        case ast.Call(func=ast.Attribute(value=inner, attr="using")):
            return is_queries(inner, names)
        case _:
            return False


def list_functions(tree: ast.Module) -> list[Function]:
    """Functions of the module and methods of its classes; one inside another belongs to the outer one."""
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return [node for body in bodies for node in body if isinstance(node, Function)]


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Every call in a piece of code."""
    return [each for each in ast.walk(node) if isinstance(each, ast.Call)]


def called_name(call: ast.Call) -> str | None:
    """The last word of what is called."""
    match call.func:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return None


def texts_in(node: ast.AST) -> Iterator[str]:
    """Every text that stands in a piece of code."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def text_constants(tree: ast.Module) -> set[str]:
    """Every text of the module's functions, and every text that an f-string can make of those of its own function."""
    constants: set[str] = set()
    for function in list_functions(tree):
        own_texts = set(texts_in(function))
        constants |= own_texts
        for node in ast.walk(function):
            if isinstance(node, ast.JoinedStr):
                parts = [texts_in(part) if isinstance(part, ast.Constant) else own_texts for part in node.values]
                constants.update(map("".join, product(*parts[:3])))  # three are enough for names, and more are too many
    return constants


def executed_statement(call: ast.Call) -> ast.expr | None:
    """Return what a call passes to the database, if anything."""
    match call:
        case ast.Call(func=ast.Attribute(attr=name), args=[statement, *_]) if name in EXECUTE:
            return statement
        case ast.Call(func=ast.Name(name), args=[_, statement, *_]) if name in QUERY_HELPERS:
            return statement
        case _:
            return None


def wrapped_by(call: ast.Call) -> ast.expr | None:
    """What a call makes a statement or a piece of one, if it does: psycopg's `sql.SQL`, SQLAlchemy's `text`."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name("sql"), attr="SQL") | ast.Name("SQL" | "text"), args=[text, *_]
        ):
            return text
        case _:
            return None


def statements_in(source: str) -> Sequence[str]:
    """Every statement that stands in Python: executed, wrapped to be composed, or a whole program of several lines."""
    tree = ast.parse(source)
    found: dict[str, None] = {}
    for call in calls_in(tree):
        if statement := executed_statement(call):
            found |= dict.fromkeys(literals(statement, tree))
        if text := wrapped_by(call):
            found |= dict.fromkeys(each for each in literals(text, tree) if is_statement(each))
    descriptions = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, Described)}
    programs = [text for text in texts_in(tree) if "\n" in text.strip() and ";" in text and text not in descriptions]
    return list(found | dict.fromkeys(plain(text) for text in programs if is_statement(plain(text))))


def is_statement(text: str) -> bool:
    """Does it begin as statements do? A piece of one, to be composed, does not."""
    return text == ASSEMBLED or VERB.match(text) is not None


def plain(text: str) -> str:
    """In one line."""
    return " ".join(text.split())


def literals(node: ast.expr, tree: ast.Module, depth: int = 3) -> Iterator[str]:
    """The texts an expression may be; names are looked up among the module's assignments."""
    match node:
        case ast.Constant(str(text)):
            yield plain(text)
        case ast.Constant(bytes(text)):
            yield plain(text.decode())
        case ast.JoinedStr() | ast.BinOp(left=ast.Constant(str()) | ast.JoinedStr()):
            yield ASSEMBLED
        case ast.Call(func=ast.Attribute(value=ast.Constant(str()), attr="format" | "join" | "replace")):
            yield ASSEMBLED
        case ast.Call(func=ast.Attribute(value=value, attr="encode")):
            yield from literals(value, tree, depth)
        case ast.IfExp(body=one, orelse=other):
            yield from literals(one, tree, depth)
            yield from literals(other, tree, depth)
        case ast.Name(name) if depth:
            for value in assigned_to(name, tree):
                yield from literals(value, tree, depth - 1)
        case _:
            pass


def assigned_to(name: str, tree: ast.Module) -> Iterator[ast.expr]:
    """Whatever a name stands for, anywhere in the module."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(target)], value=value) if target == name:
                yield value
            case ast.AnnAssign(target=ast.Name(target), value=ast.expr() as value) if target == name:
                yield value
            case _:
                pass
