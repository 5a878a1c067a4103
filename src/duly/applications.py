"""The applications on the engine: what each of them brings, and which are switched on by DULY_APPS.

Each is declared in `apps/<name>/application.py`. What it brings is named by import paths, `module:name`, which are
loaded when they are used: `duly --help` and a program that enqueues import no application, and nothing in the engine
imports one by a statement. Two files beside the declaration belong to it as well: `catalogue.txt`, the catalogue of its
schemas, and `invariants.sql`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from duly.extras import describe_missing, is_installed

DECLARATIONS = {
    "posts": "duly.apps.posts.application:POSTS",
    "scheduler": "duly.apps.scheduler.application:SCHEDULER",
    "ingest": "duly.apps.ingest.application:INGEST",
}
BOT_SERVES = ("scheduler", "ingest")  # the Telegram bot: reminders and shifts, answers and screenshots
SETTING = "DULY_APPS"
ALL, NONE = ",".join(DECLARATIONS), "none"
EXTRA = "apps"  # what all of them need


@dataclass(frozen=True)
class Command:
    """A command of `duly`: its name, the module that defines it, and the line about it in the help."""

    name: str
    module: str
    summary: str


@dataclass(frozen=True)
class Machine:
    """A state machine of a contract: its name in the log, its table and column, and where it is logged."""

    name: str
    table: str
    column: str
    log: str = "duly.transition"
    stays: tuple[str, ...] = ()  # states with events that keep the state: another owner, progress, another text


@dataclass(frozen=True)
class Application:
    """The declaration of an application, which is named like its package and its contract."""

    name: str
    directory: Path
    schemas: tuple[str, ...]  # by their default names
    settings: str  # the part of the settings; settings.py composes them all
    machines: tuple[Machine, ...]
    commands: tuple[Command, ...]
    http: str  # an HttpPart: routes, and what they need while the API runs
    works: Mapping[str, str]  # by the name in `--only`: a function that builds the work from a WorkPlan
    checks: Mapping[str, str]  # by name: a check of `duly doctor`
    computed_invariants: Mapping[str, str]  # by name: a function that finds offenders which SQL cannot find
    calendar_events: str | None = None  # a CalendarSource: what it adds to a person's calendar feed


def load(path: str) -> Any:
    """Import what a path `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


@cache
def load_application(name: str) -> Application:
    """Load the declaration of an application."""
    return load(DECLARATIONS[name])


def list_applications(value: str = ALL) -> Sequence[Application]:
    """List the applications that a value of DULY_APPS switches on, in the order of their declaration."""
    return [load_application(name) for name in parse_names(value)]


def parse_names(value: str) -> tuple[str, ...]:
    """Parse a value of DULY_APPS: `none`, or names with commas between; raises ValueError."""
    names = [] if value == NONE else value.split(",")
    if not all(name in DECLARATIONS for name in names):
        raise ValueError(f"must be {NONE}, or some of {', '.join(DECLARATIONS)} with commas between")
    return tuple(name for name in DECLARATIONS if name in names)


def default_names() -> str:
    """Return the value of DULY_APPS where it is not set: all, or none without the extra that they need."""
    return ALL if is_installed(EXTRA) else NONE


def check_names(value: str) -> str:
    """Return a value of DULY_APPS whose applications exist and can run here; raises ValueError."""
    if parse_names(value) and not is_installed(EXTRA):
        raise ValueError(describe_missing(EXTRA))
    return value


def has_bot(value: str) -> bool:
    """Return whether a value of DULY_APPS switches on every application that the Telegram bot serves."""
    return set(BOT_SERVES) <= set(parse_names(value))


def describe_as_off(value: str, thing: str, owner: Application) -> str:
    """Describe that something belongs to an application that is switched off, and how to switch it on."""
    wanted = ",".join(name for name in DECLARATIONS if name in (*parse_names(value), owner.name))
    return (
        f"{SETTING}={value}: {thing} belongs to the application {owner.name}, which is switched off; "
        f"set {SETTING}={wanted}"
    )
