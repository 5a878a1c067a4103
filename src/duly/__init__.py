"""duly: in the proper way, at the proper time.

Durable work on the PostgreSQL you already have: things that must happen later, once, by one holder at a time,
and be provable afterwards. The rooms of the house are drawn in `docs/architecture.md`.

    import duly

    app = duly.App()

    @app.job("greet")
    async def greet(ctx: duly.Context, name: str) -> str:
        return f"hello {name}"

The names below are imported when they are first used: `import duly` alone costs nothing.
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

PLACES = {
    "App": "duly.app",
    "Backoff": "duly.backoff",
    "Context": "duly.jobs.context",
    **dict.fromkeys(("Created", "Done", "Existing", "Failed", "GiveUp", "Later", "Stopped"), "duly.outcomes"),
}


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module 'duly' has no attribute '{name}'")
    value = getattr(import_module(PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
