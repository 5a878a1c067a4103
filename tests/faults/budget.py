"""What the gate of faults costs: it is part of every `./duly test`, and may take four minutes of it."""

from collections.abc import Iterable

import pytest

__all__ = ["GATE", "GATE_SECONDS", "say_what_the_gate_took"]

GATE = "tests/faults/test_gate.py"
GATE_SECONDS = 240.0


def say_what_the_gate_took(reports: Iterable[object]) -> str | None:
    """How long its tests took together, one after the other; None when none of them ran."""
    of_gate = [each for each in reports if isinstance(each, pytest.TestReport) and each.nodeid.startswith(GATE)]
    if not of_gate:
        return None
    seconds, several = sum(each.duration for each in of_gate), len({each.nodeid for each in of_gate})
    judgement = "within" if seconds <= GATE_SECONDS else "MORE THAN"
    return f"the gate of faults: {several} tests in {seconds:.0f} s, {judgement} its {GATE_SECONDS:.0f} s"
