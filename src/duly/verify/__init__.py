"""Verify: compares a database with its contracts and checks its invariants.

A contract is the catalogue that the migrations produce, one line per object; a database differs by missing and by
unexpected lines. An invariant is a named statement that returns offenders; an empty result is good.
"""

from duly.verify.contract import Difference, compare
from duly.verify.invariants import INVARIANTS, Invariant, Violation, check, select_invariants

__all__ = ["INVARIANTS", "Difference", "Invariant", "Violation", "check", "compare", "select_invariants"]
