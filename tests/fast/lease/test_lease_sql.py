"""The rendered SQL of every lease table, changed only on purpose."""

from duly.lease.operations import TEMPLATES, LeaseTable, render, render_settle
from tests.proof.guards.held import HELD
from tests.support.conformance.tables import SHAPES
from tests.support.golden import GOLDEN, golden_change

STATEMENTS = GOLDEN / "lease"
FRAGMENTS = ("until_", "since_", "settled")


def changes_of(texts: dict[str, str]) -> list[str]:
    """Compare every text with the golden file of its name: the differences of all."""
    return [change for name, text in texts.items() if (change := golden_change(STATEMENTS / name, text))]


def test_the_statements_of_a_lease_table_are_the_committed_ones() -> None:
    offenders = changes_of({f"{shape}.sql": statements_of(shape.table, shape.end) for shape in SHAPES})
    assert not offenders, "\n".join(offenders)


def test_the_statements_of_plans_and_notifications_are_the_committed_ones() -> None:
    held = {name: HELD[name] for name in ("plan", "notification")}
    offenders = changes_of({f"{name}.sql": statements_of(each.table, each.end) for name, each in held.items()})
    assert not offenders, "\n".join(offenders)


def statements_of(table: LeaseTable, end: str) -> str:
    """Every statement of the lease for one table, by its name."""
    names = [name for name in TEMPLATES if not name.startswith(FRAGMENTS) and name != "settle"]
    statements = {name: render(table, name) for name in names} | {"settle": render_settle(table, end)}
    return "\n\n".join(f"-- {name}\n{statements[name].as_string(None)};" for name in sorted(statements)) + "\n"
