"""Places where a test may let the process die, as if somebody had pulled the plug.

    DULY_CRASHPOINT=after_claim       die at the first pass
    DULY_CRASHPOINT=after_claim:3     die at the third

The variable is read once, when this module is imported; every process counts its own passes. Without it a call does
nothing and costs a few tens of nanoseconds. With it the process ends by `os._exit(137)`, the status of kill -9: no
cleanup, no flush, no `finally`.
"""

import itertools
import os
import re
from collections.abc import Callable

from duly.errors import Misconfigured

__all__ = ["CRASHPOINTS", "VARIABLE", "crashpoint"]

VARIABLE = "DULY_CRASHPOINT"
KILLED = 137
CRASHPOINTS: frozenset[str] = frozenset(
    {
        "after_claim",
        "before_work",
        "after_work",
        "before_send",
        "after_send",
        "before_settle",
        "after_settle",
        "before_renew",
        "after_renew",
        "before_release",
        "after_release",
        "before_sweep",
        "after_sweep",
    }
)


def _pass_by(_name: str) -> None:
    """Nothing is armed: go on."""


def _arm(target: str, nth: int) -> Callable[[str], None]:
    """A crash point that lets the n-th pass of the target be the last thing this process does."""
    passes = itertools.count(1)  # its next() is one step, whichever thread passes

    def die_at_target(name: str) -> None:
        if name not in CRASHPOINTS:
            raise AssertionError(f"crash point {name!r} is not registered in CRASHPOINTS")
        if name == target and next(passes) == nth:
            os._exit(KILLED)

    return die_at_target


def _read(setting: str) -> tuple[str, int]:
    """The name and the pass that the variable asks for."""
    asked = re.fullmatch(r"([a-z_]+)(?::([1-9][0-9]{0,8}))?", setting)
    if not asked or asked[1] not in CRASHPOINTS:
        known = ", ".join(sorted(CRASHPOINTS))
        raise Misconfigured(f"{VARIABLE}={setting!r}: write a name, or name:n for its n-th pass; known are {known}")
    return asked[1], int(asked[2] or 1)


def _chosen(setting: str | None) -> Callable[[str], None]:
    return _arm(*_read(setting)) if setting else _pass_by


crashpoint: Callable[[str], None] = _chosen(os.environ.get(VARIABLE))
"""Pass a place where the process may be told to die; the name is one of CRASHPOINTS."""
