"""docs/public-api.md, generated from the modules that users import from."""

import importlib
import inspect
from collections.abc import Iterator

PUBLIC_MODULES = ("duly", "duly.errors", "duly.testing", "duly.integrations.fastapi", "duly.logging")
RETURNED = {"duly": ("duly.app.JobType", "duly.app.Enqueuer")}  # classes whose objects users get and never name
MAX_NAMES = 120

BEGINNING = """\
# Public API

The names that users import, and the methods of what they get. Every other module is internal: it may change in any
release. The command line ([jobs.md](jobs.md)), HTTP ([api.md](api.md)), SQL functions ([ledger.md](ledger.md)),
[settings](configuration.md) and [error codes](errors.md) are the other public surfaces.

This page is generated; to regenerate it: `python -m tools.generate`
"""


def render_page() -> str:
    """Render the page, with one table per module."""
    return "\n".join([BEGINNING, *map(render_module, PUBLIC_MODULES)])


def render_module(module: str) -> str:
    """Render the heading and the table of a module."""
    rows = [f"| `{name}` | {summary} |" for name, summary in list_names(module)]
    return "\n".join([f"## `{module}`", "", "| name | what it is |", "|---|---|", *rows, ""])


def list_names(module: str) -> Iterator[tuple[str, str]]:
    """List the public names of a module and the methods of its classes, each with the first line of its docstring."""
    loaded = importlib.import_module(module)
    for name in loaded.__all__:
        yield from describe(name, getattr(loaded, name))
    for path in RETURNED.get(module, ()):
        parent, _, name = path.rpartition(".")
        yield from describe(name, getattr(importlib.import_module(parent), name))


def describe(name: str, value: object) -> Iterator[tuple[str, str]]:
    """Describe a name, and, if it is a class that is no error, its methods and properties."""
    is_documented = inspect.isclass(value) or inspect.isroutine(value)
    yield name, first_line(value) if is_documented else f"`{value!r}`" if isinstance(value, str) else "a constant"
    if inspect.isclass(value) and not issubclass(value, Exception):
        for member, function in vars(value).items():
            if not member.startswith("_") and (inspect.isroutine(function) or isinstance(function, property)):
                yield f"{name}.{member}", first_line(function)


def first_line(value: object) -> str:
    """Return the first line of a docstring."""
    return (inspect.getdoc(value) or "").partition("\n")[0].replace("|", "\\|")
