"""Every branch of every invariant is needed: without it, some violation of the invariant is no longer found."""

from collections.abc import Generator, Sequence
from typing import Any

import psycopg
import pytest

from duly.db.migrations import Names
from duly.testing import TestDatabases
from duly.verify import INVARIANTS, Invariant
from duly.verify.contract import CONTRACTS
from duly.verify.invariants import VISIBILITY_CHECK, render_statement
from tests.support.invariant_branches import Branch, find_branches
from tests.support.planted_violations import HIDING_POLICIES, PLANTED_VIOLATIONS, violated_invariant

AdminConnection = psycopg.Connection[Any]
SCHEMAS = [schema for several in CONTRACTS.values() for schema in several]
BRANCHES = {
    invariant.name: (invariant, branches)
    for invariant in INVARIANTS
    if (branches := find_branches(invariant.statement))
}
VISIBILITY = VISIBILITY_CHECK  # is about the role that checks, and runs as a role that does not see every row


@pytest.fixture(scope="module")
def admin_connection(databases: TestDatabases, worker_id: str) -> Generator[AdminConnection, None, None]:
    """A database in which each violation is planted and taken back."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("invariant_name", sorted({*BRANCHES} - {VISIBILITY}))
def test_every_branch_of_an_invariant_finds_a_planted_violation_alone(
    invariant_name: str, admin_connection: AdminConnection
) -> None:
    violations = [text for planted, text in PLANTED_VIOLATIONS.items() if violated_invariant(planted) == invariant_name]
    assert needless_branches(admin_connection, invariant_name, violations) == [], "no violation is found by these alone"


def test_every_branch_of_the_visibility_check_finds_a_login_that_misses_rows(admin_connection: AdminConnection) -> None:
    violations = [f"{text}; set local role {Names().worker}" for text in HIDING_POLICIES.values()]
    assert needless_branches(admin_connection, VISIBILITY, violations) == [], (
        "these alone do not find a role that sees too little"
    )


def needless_branches(connection: AdminConnection, invariant_name: str, violations: Sequence[str]) -> list[str]:
    """Return the branches of an invariant without which each of these violations is still found."""
    invariant, branches = BRANCHES[invariant_name]
    needless = list(branches)
    for violation in violations:
        with connection.transaction(force_rollback=True):
            connection.execute(violation.encode())
            assert finds(connection, invariant, invariant.statement), violation
            needless = [branch for branch in needless if finds(connection, invariant, branch.without)]
    return [branch.text for branch in needless]


def finds(connection: AdminConnection, invariant: Invariant, statement: str) -> bool:
    """Does a statement of this invariant find an offender?"""
    query = render_statement(Invariant(invariant.name, invariant.description, statement, invariant.contract), SCHEMAS)
    return connection.execute(query.encode()).fetchone() is not None


def branches_in(condition: str) -> list[str]:
    return [
        branch.text for branch in find_branches(f"select 'x' as offender from t where {condition} order by 1 limit 1")
    ]


def test_branches_of_a_condition_are_found() -> None:
    assert branches_in("a = 1") == []
    assert branches_in("a = 1 and b between 2 and 3 or c is distinct from d") == [
        "a = 1 and b between 2 and 3",
        "c is distinct from d",
    ]
    assert branches_in("a and (b or (c or 'or' = d))") == ["b", "(c or 'or' = d)", "c", "'or' = d"]
    assert branches_in("not exists (select from u where a or b)") == []
    assert branches_in("(a, f(b, c)) is distinct from (d, e)") == ["a is distinct from d", "f(b, c) is distinct from e"]
    assert branches_in("case when a or b then c when d then false else e > 1 end") == ["a", "b", "c", "e > 1"]
    assert branches_in("a <> case when b then 1 else 0 end") == []


def test_a_branch_is_disabled_without_changing_the_rest_of_the_statement() -> None:
    statement = "select a as offender from t where a = 1 or b = 2 union all select c from u order by 1 limit 3;"
    assert [branch.without for branch in find_branches(statement)] == [
        " select * from (select a as offender from t where a = 1 or b = 2 ) as one_of_them where false union all"
        " select c from u order by 1 limit 3",
        "select a as offender from t where false or b = 2 union all select c from u order by 1 limit 3",
        "select a as offender from t where a = 1 or false union all select c from u order by 1 limit 3",
        "select a as offender from t where a = 1 or b = 2 union all"
        " select * from ( select c from u ) as one_of_them where false order by 1 limit 3",
    ]
    assert find_branches("select 'x' as offender from t where (a, b) is distinct from (c, d)")[0] == Branch(
        "a is distinct from c", "select 'x' as offender from t where ((b) is distinct from (d))"
    )
