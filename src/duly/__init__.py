"""duly: in the proper way, at the proper time.

Durable jobs on the PostgreSQL you already have: each runs later, by one worker at a time, is retried by policy, and
leaves a log of what happened. `docs/architecture.md` draws the packages.

    import duly

    app = duly.App()

    @app.job("greet")
    async def greet(ctx: duly.Context, name: str) -> str:
        return f"hello {name}"

The names below are imported on first use: `import duly` alone costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly.app import App
    from duly.backoff import Backoff
    from duly.jobs.context import Context
    from duly.outcomes import Created, Done, Existing, Failed, GiveUp, Later, Stopped

__all__ = [
    "App",
    "Backoff",
    "Context",
    "Created",
    "Done",
    "Existing",
    "Failed",
    "GiveUp",
    "Later",
    "Stopped",
    "__version__",
]

__version__ = "0.1.0"

MODULES = {
    "App": "duly.app",
    "Backoff": "duly.backoff",
    "Context": "duly.jobs.context",
    **dict.fromkeys(("Created", "Done", "Existing", "Failed", "GiveUp", "Later", "Stopped"), "duly.outcomes"),
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'duly' has no attribute '{name}'")
    value = getattr(import_module(MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
