"""Compute how long to wait before a retry.

    none     at once
    fixed    the base
    exp      base * 2^attempt, capped, times a random number between 0.8 and 1.2

`attempt` is the column of the job, which counts retries: 0 is the first attempt, so a first failure under `exp` waits
about one base. The jitter spreads retries of jobs that failed together; the exponential part outlasts an outage: with a
base of 15 s five attempts take three minutes at least (15 + 30 + 60 + 120 s, times 0.8). Jobs and reconnects use the
same rule.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random, SystemRandom
from typing import TYPE_CHECKING

from duly.errors import InvalidArgument

JITTER = (0.8, 1.2)
MAX_SECONDS = 366 * 86_400.0  # more than a year is a mistake, and far more overflows a timestamp

# SystemRandom, because forked workers would share the state of an ordinary generator, and so their jitter.
_RANDOM = SystemRandom()


class BackoffPolicy(StrEnum):
    """A backoff policy: the ledger contract's `job_backoff_policy`."""

    NONE = "none"
    FIXED = "fixed"
    EXP = "exp"


@dataclass(frozen=True, slots=True)
class Backoff:
    """A retry delay policy: `Backoff("fixed", 1, 1)`, `Backoff("exp", base_seconds=30, cap_seconds=3600)`."""

    policy: BackoffPolicy = BackoffPolicy.EXP
    base_seconds: float = 15.0
    cap_seconds: float = 600.0

    if TYPE_CHECKING:  # a policy may be given by its name

        def __init__(
            self, policy: BackoffPolicy | str = ..., base_seconds: float = ..., cap_seconds: float = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        object.__setattr__(self, "policy", parse_policy(self.policy))
        for name in ("base_seconds", "cap_seconds"):
            check_seconds(name, getattr(self, name))
        if not 0 <= self.base_seconds <= self.cap_seconds <= MAX_SECONDS:
            raise InvalidArgument(
                f"backoff: base {self.base_seconds} s and cap {self.cap_seconds} s; "
                f"must satisfy 0 <= base <= cap <= {MAX_SECONDS:.0f}"
            )

    def nominal_seconds(self, attempt: int) -> float:
        """Return the delay after this attempt without jitter; it never shrinks with later attempts."""
        if attempt < 0:
            raise AssertionError(f"attempt {attempt} is negative")
        match self.policy:
            case BackoffPolicy.NONE:
                return 0.0
            case BackoffPolicy.FIXED:
                return self.base_seconds
            case BackoffPolicy.EXP:
                return min(self.cap_seconds, self._doubled(attempt))

    def delay_seconds(self, attempt: int, random: Random = _RANDOM) -> float:
        """Return the delay after this attempt failed, with jitter."""
        nominal = self.nominal_seconds(attempt)
        return nominal * random.uniform(*JITTER) if self.policy is BackoffPolicy.EXP else nominal

    def _doubled(self, attempt: int) -> float:
        try:
            return math.ldexp(self.base_seconds, attempt)
        except OverflowError:
            return math.inf


def parse_policy(policy: object) -> BackoffPolicy:
    """Parse the name of a policy."""
    try:
        return BackoffPolicy(policy)
    except ValueError:
        raise InvalidArgument(f"backoff {policy!r}: must be none, fixed or exp") from None


def check_seconds(name: str, value: object) -> None:
    """Raise InvalidArgument unless the value is a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"backoff: {name}={value!r} must be a number of seconds")
