"""The one place where domains, channels, worker and doors meet: the kinds of work, and how each is built."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from duly.errors import InvalidArgument
from duly.kernel.work import Pace, Work
from duly.ledger.sdk import App
from duly.ledger.work import JobWork
from duly.settings import Settings

__all__ = ["WORKS", "load_app", "works_of"]


def ledger(settings: Settings, app: App) -> Work:
    """The jobs that this app has handlers for; without any, what dead workers held still comes back."""
    pace = Pace(poll_seconds=settings.poll_seconds, sweep_seconds=settings.sweep_seconds, slots=settings.worker_slots)
    return JobWork(app.handlers(), pace, api_role=settings.api_role)


def posts(settings: Settings, app: App) -> Work:  # noqa: ARG001
    """Posts whose time has come."""
    from duly.objects import open_objects
    from duly.posts.rules import RulesAnalyzer
    from duly.posts.work import PostWork

    lease = settings.posts_lease_seconds
    pace = Pace(
        lease_seconds=lease,
        heartbeat_seconds=lease / 4,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=settings.posts_slots,
    )
    return PostWork(
        RulesAnalyzer(), pace, objects=open_objects(settings), analyzer_seconds=settings.posts_analyzer_seconds
    )


WORKS: Mapping[str, Callable[[Settings, App], Work]] = {"ledger": ledger, "posts": posts}  # each domain adds its own


def works_of(settings: Settings, only: Sequence[str] | None = None, app: App | None = None) -> list[Work]:
    """The kinds of work a worker takes: all there are, or those it was told."""
    unknown = [name for name in only or () if name not in WORKS]
    if unknown:
        there_are = ", ".join(WORKS) or "none yet"
        raise InvalidArgument(f"--only {','.join(only or ())}: there is no work '{unknown[0]}'; there are: {there_are}")
    mine = app or App()
    return [build(settings, mine) for name, build in WORKS.items() if only is None or name in only]


def load_app(name: str) -> App:
    """The app that `module:variable` names, found from the directory we are in."""
    module, _, variable = name.partition(":")
    if not module or not variable:
        raise InvalidArgument(f"--app {name}: write it as module:variable, for example shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = attrgetter(variable)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            raise  # it is there, and needs something that is not
        raise InvalidArgument(f"--app {name}: there is no module '{error.name}' in {here} or on the path") from None
    except AttributeError:
        raise InvalidArgument(f"--app {name}: the module '{module}' has no '{variable}'") from None
    if not isinstance(found, App):
        raise InvalidArgument(f"--app {name}: that is a {type(found).__name__}, not a duly.App")
    return found
