"""Points at which a test can kill the process, as a power failure would.

    DULY_CRASHPOINT=after_claim       die at the first pass
    DULY_CRASHPOINT=after_claim:3     die at the third

The variable is read once, when this module is imported; a process forked later can call `arm`. Every process counts its
own passes. Unarmed, a call does nothing and costs a few tens of nanoseconds. Armed, the process ends by
`os._exit(137)`, the status of kill -9: no cleanup, no flush, no `finally`.

`after_claim`, `after_settle`, `after_release` and `after_sweep` lie inside their transaction, which is rolled back.
With `_commit` they lie after it: it has committed, and its result was not yet used. A claim, settle or sweep of no rows
passes none of these.
"""

import itertools
import os
import re
from collections.abc import Callable

from duly.errors import Misconfigured

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


def _build_trigger(target: str, nth: int) -> Callable[[str], None]:
    """Build the function that kills this process at the n-th pass of the target."""
    passes = itertools.count(1)  # next() is atomic, whichever thread passes

    def die_at_target(name: str) -> None:
        if name not in CRASHPOINTS:
            raise AssertionError(f"crash point {name!r} is not registered in CRASHPOINTS")
        if name == target and next(passes) == nth:
            os._exit(KILLED)

    return die_at_target


def _parse(setting: str) -> tuple[str, int]:
    """Parse the variable into the name and the number of the pass."""
    match = re.fullmatch(r"([a-z_]+)(?::([1-9][0-9]{0,8}))?", setting)
    if not match or match[1] not in CRASHPOINTS:
        known = ", ".join(sorted(CRASHPOINTS))
        raise Misconfigured(f"{VARIABLE}={setting!r}: must be a name, or name:n for its n-th pass; names are {known}")
    return match[1], int(match[2] or 1)


def arm(setting: str) -> None:
    """Kill this process at the crash point that the setting names."""
    global _trigger
    _trigger = _build_trigger(*_parse(setting))


_trigger: Callable[[str], None] | None = None
if _setting := os.environ.get(VARIABLE):
    arm(_setting)


def crashpoint(name: str) -> None:
    """Pass a crash point; the name is one of CRASHPOINTS."""
    if _trigger is not None:
        _trigger(name)
