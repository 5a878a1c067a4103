"""A command group that imports a subcommand's module only when that subcommand runs, so that `duly --help` is quick."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from duly.errors import Misconfigured
from duly.extras import is_checkout, require
from duly.launcher import ROOT


def import_tool(module: str) -> ModuleType:
    """Import a module of `tools/`, which is part of a checkout and not of the package."""
    if not (ROOT / "tools").is_dir():
        raise Misconfigured("this command is part of a checkout of duly; run it as ./duly in a clone of the repository")
    if str(ROOT) not in sys.path:
        sys.path.append(str(ROOT))
    return import_module(module)


@dataclass(frozen=True)
class LazyCommand:
    """A subcommand as the help of its parent lists it, and the module that defines it."""

    name: str
    module: str
    summary: str  # the first paragraph of its own help; tests/fast/cli/test_help.py compares the two
    panel: str | None = None
    extra: str | None = None  # what its module needs; in a checkout the command itself installs what is not there yet

    def placeholder(self) -> TyperCommand:
        """Return a command that can be listed, but not run."""
        return TyperCommand(self.name, help=self.summary, rich_help_panel=self.panel)

    def load(self) -> Any:
        """Import the module; return its command of this name or, if it has none, its group; raises MissingExtra."""
        if self.extra and not is_checkout():
            require(self.extra)
        load = import_tool if self.module.startswith("tools.") else import_module
        group = get_group(load(self.module).app)
        group.name = self.name
        command: Any = group.commands.get(self.name, group)
        command.rich_help_panel = self.panel
        return command


class LazyGroup(TyperGroup):
    """Lists placeholders, and replaces one by the real command before that is run."""

    def __init__(self, lazy_commands: Sequence[LazyCommand], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.not_loaded = {command.name: command for command in lazy_commands}
        for command in lazy_commands:
            self.add_command(command.placeholder())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the subcommand that the arguments name, and import it."""
        self.load(args[0])
        return super().resolve_command(ctx, args)

    def load(self, name: str) -> None:
        """Replace the placeholder of this name, if there is one, by the real command."""
        if command := self.not_loaded.get(name):
            self.add_command(command.load(), name)
            del self.not_loaded[name]
