"""Verify: is this database what the contracts say, and do the invariants hold?

A contract is the catalogue the migrations lead to, a line per thing; a database differs by lines that are missing and
lines that are too many. An invariant is a named statement that returns offenders: none is good. Each domain registers
its own.
"""

from duly.verify.contract import Difference, compare
from duly.verify.invariants import INVARIANTS, Invariant, Offence, check, invariants_of

__all__ = ["INVARIANTS", "Difference", "Invariant", "Offence", "check", "compare", "invariants_of"]
