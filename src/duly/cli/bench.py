"""`duly bench`: measurements that live in the checkout, beside the package, and are run in a process of their own."""

import os
import sys
from collections.abc import Mapping

from duly.cli.workshop import in_checkout
from duly.extras import require

__all__ = ["run_bench_ledger"]


def run_bench_ledger(
    rounds: int, only: str | None, sides: str | None, sizes: Mapping[str, float], as_json: bool
) -> None:
    """Become the program that compares the ledger with its peers."""
    in_checkout()
    require("bench")
    words = ["--rounds", str(rounds)]
    for name, value in {"only": only, "sides": sides, **sizes}.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    if as_json:
        words.append("--json")
    os.execv(sys.executable, [sys.executable, "-m", "bench.ledger", *words])
