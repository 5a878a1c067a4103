"""The option --app and DULY_APP: the `duly.App` of a user, imported by name."""

import importlib
import sys
from operator import attrgetter
from pathlib import Path
from traceback import TracebackException

from duly.app import App
from duly.errors import InvalidArgument


def load_app(name: str) -> App:
    """Import the app that `module:variable` names, from the working directory or the path."""
    module, _, variable = name.partition(":")
    if not module or not variable:
        raise InvalidArgument(f"--app {name}: write it as module:variable, for example shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise InvalidArgument(f"--app {name}: there is no module '{error.name}' in {here} or on the path") from None
        raise broken_app(name, module, error) from None
    try:
        found = attrgetter(variable)(imported)
    except AttributeError:
        raise InvalidArgument(f"--app {name}: the module '{module}' has no '{variable}'") from None
    if not isinstance(found, App):
        raise InvalidArgument(f"--app {name}: that is a {type(found).__name__}, not a duly.App")
    return found


def broken_app(name: str, module: str, error: Exception) -> InvalidArgument:
    """Return the error for a module that cannot be imported; its note is the traceback without frames of ours."""
    traced = TracebackException.from_exception(error)
    seen: TracebackException | None = traced
    while seen:
        seen.stack[:] = [frame for frame in seen.stack if not is_machinery(frame.filename)]
        seen = seen.__cause__ or seen.__context__
    last = "".join(traced.format_exception_only()).strip().splitlines()[-1]
    refusal = InvalidArgument(f"--app {name}: the module '{module}' cannot be imported: {last}")
    refusal.add_note("".join(traced.format()).rstrip("\n"))
    return refusal


def is_machinery(filename: str) -> bool:
    """Return whether a file is this module or belongs to Python's import system."""
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")
