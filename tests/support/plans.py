"""What no plan of a frequent statement may do, whatever the statistics say."""

import re

JIT_ABOVE_COST = 100_000  # PostgreSQL's default: it compiles what looks more expensive
COST = re.compile(r"cost=[\d.]+\.\.([\d.]+)")


def check_plan(name: str, plan: str, *, tables: str = "") -> None:
    """Fail on a scan of one of these tables (default: of any), on a join without a key, and on a plan worth compiling.

    `tables` are alternatives of a regular expression.
    """
    scan = re.search(rf"Seq Scan on ({tables})\b" if tables else "Seq Scan", plan)
    assert not scan, f"{name} reads a whole table:\n{plan}"
    assert "Join Filter" not in plan, f"{name} compares every row with every other:\n{plan}"
    cost = max(map(float, COST.findall(plan)))
    assert cost < JIT_ABOVE_COST, f"{name} looks so expensive that PostgreSQL compiles it:\n{plan}"
