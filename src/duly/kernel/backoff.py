"""How long to wait before trying again.

    none     at once
    fixed    the base
    exp      anything between nothing and base * 2^attempt, capped ("full jitter")

Attempt 0 is the first try, so a first failure under `exp` waits up to one base. Full jitter spreads those who failed
together; waiting exactly base * 2^attempt would bring them all back together. Jobs and reconnects use the same rule.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random, SystemRandom

from duly.errors import InvalidArgument

__all__ = ["LONGEST_SECONDS", "Backoff", "BackoffPolicy"]

LONGEST_SECONDS = 366 * 86_400.0  # more than a year is a mistake, and far more overflows a timestamp

# The operating system's, because forked workers would share the state of an ordinary one, and their jitter with it.
_RANDOM = SystemRandom()


class BackoffPolicy(StrEnum):
    """The ledger contract's `job_backoff_policy`."""

    NONE = "none"
    FIXED = "fixed"
    EXP = "exp"


@dataclass(frozen=True, slots=True)
class Backoff:
    """A rule for waiting; no wait is ever longer than its cap."""

    policy: BackoffPolicy = BackoffPolicy.EXP
    base_seconds: float = 1.0
    cap_seconds: float = 600.0

    def __post_init__(self) -> None:
        if not 0 <= self.base_seconds <= self.cap_seconds <= LONGEST_SECONDS:
            raise InvalidArgument(
                f"backoff: base {self.base_seconds} s and cap {self.cap_seconds} s; "
                f"they must keep 0 <= base <= cap <= {LONGEST_SECONDS:.0f}"
            )

    def ceiling_seconds(self, attempt: int) -> float:
        """The longest this attempt may have to wait; a later attempt's is never shorter."""
        if attempt < 0:
            raise AssertionError(f"attempt {attempt} is before the first")
        match self.policy:
            case BackoffPolicy.NONE:
                return 0.0
            case BackoffPolicy.FIXED:
                return self.base_seconds
            case BackoffPolicy.EXP:
                return min(self.cap_seconds, self._doubled(attempt))

    def delay_seconds(self, attempt: int, random: Random = _RANDOM) -> float:
        """How long to wait after this attempt failed."""
        ceiling = self.ceiling_seconds(attempt)
        return random.uniform(0.0, ceiling) if self.policy is BackoffPolicy.EXP else ceiling

    def _doubled(self, attempt: int) -> float:
        try:
            return math.ldexp(self.base_seconds, attempt)
        except OverflowError:
            return math.inf
