"""Which functions of the package call which, as far as its imports tell: by name, by module, or on `self`."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Module:
    """What one file defines and imports."""

    functions: dict[str, Function] = field(default_factory=dict[str, Function])  # a method as `Class.method`
    classes: list[str] = field(default_factory=list[str])
    imports: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])  # module, and name in it


def read_package(package: Path) -> Mapping[str, Module]:
    """Read every module of a package, by its dotted name."""
    return {module_name(package, file): read_module(file) for file in sorted(package.rglob("*.py"))}


def module_name(package: Path, file: Path) -> str:
    """Return the dotted name of a file."""
    return ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")


def read_module(file: Path) -> Module:
    """Read what a file defines and imports, inside of functions too."""
    module, tree = Module(), ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module.imports |= {each.asname or each.name: (node.module or "", each.name) for each in node.names}
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                module.functions[node.name] = node
            case ast.ClassDef():
                module.classes.append(node.name)
                methods = [each for each in node.body if isinstance(each, Function)]
                module.functions |= {f"{node.name}.{each.name}": each for each in methods}
            case _:
                pass
    return module


def call_graph(modules: Mapping[str, Module]) -> Mapping[str, set[str]]:
    """Map each function, `module:name`, to those that its body mentions."""
    return {
        f"{name}:{function}": set(find_callees(modules, name, function, node))
        for name, module in modules.items()
        for function, node in module.functions.items()
    }


def find_callees(modules: Mapping[str, Module], module: str, function: str, node: Function) -> Iterator[str]:
    """Find the functions that a body mentions, called here or handed on."""
    for each in ast.walk(node):
        match each:
            case ast.Attribute(value=ast.Name("self"), attr=name):
                owner, separator, _ = function.partition(".")
                if separator and f"{owner}.{name}" in modules[module].functions:
                    yield f"{module}:{owner}.{name}"
            case ast.Attribute(value=ast.Name(variable), attr=name) if variable in modules[module].imports:
                imported = ".".join(modules[module].imports[variable])
                if imported in modules:
                    yield from resolve(modules, imported, name)
            case ast.Name(name):
                yield from resolve(modules, module, name)
            case _:
                pass


def resolve(modules: Mapping[str, Module], module: str, name: str) -> Iterator[str]:
    """Find the function that a name means in a module, through its imports."""
    if name in modules[module].functions:
        yield f"{module}:{name}"
    elif name in modules[module].imports:
        source, original = modules[module].imports[name]
        if source in modules:
            yield from resolve(modules, source, original)
