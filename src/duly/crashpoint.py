"""Places where a test may let the process die, as if somebody had pulled the plug.

    DULY_CRASHPOINT=after_claim       die at the first pass
    DULY_CRASHPOINT=after_claim:3     die at the third

The variable is read once, when this module is imported; a process that was forked later may `arm` itself. Every process
counts its own passes. Unarmed, a call does nothing and costs a few tens of nanoseconds. Armed, the process ends by
`os._exit(137)`, the status of kill -9: no cleanup, no flush, no `finally`.

`after_claim`, `after_settle`, `after_release` and `after_sweep` lie inside their transaction: all of it is undone. With
`_commit` they lie behind it: all of it is done, and nobody has heard of it. Who claims, settles or sweeps nothing
passes none of these.
"""

import itertools
import os
import re
from collections.abc import Callable

from duly.errors import Misconfigured

__all__ = ["CRASHPOINTS", "VARIABLE", "arm", "crashpoint"]

VARIABLE = "DULY_CRASHPOINT"
KILLED = 137
CRASHPOINTS: frozenset[str] = frozenset(
    {
        "after_claim",
        "after_claim_commit",
        "before_work",
        "after_work",
        "before_send",
        "after_send",
        "before_settle",
        "after_settle",
        "after_settle_commit",
        "before_renew",
        "after_renew",
        "before_release",
        "after_release",
        "after_release_commit",
        "before_sweep",
        "after_sweep",
        "after_sweep_commit",
    }
)


def _deadly_at(target: str, nth: int) -> Callable[[str], None]:
    """What lets the n-th pass of the target be the last thing this process does."""
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


def arm(setting: str) -> None:
    """From now on this process dies where the setting says."""
    global _deadly
    _deadly = _deadly_at(*_read(setting))


_deadly: Callable[[str], None] | None = None
if _setting := os.environ.get(VARIABLE):
    arm(_setting)


def crashpoint(name: str) -> None:
    """Pass a place where the process may be told to die; the name is one of CRASHPOINTS."""
    if _deadly is not None:
        _deadly(name)
