"""Every arm of every law is needed: switched off, some violation of that law is no longer found."""

from collections.abc import Generator, Sequence
from typing import Any

import psycopg
import pytest

from duly.db.migrations import Names
from duly.testing import TestDatabases
from duly.verify import INVARIANTS, Invariant
from duly.verify.contract import CONTRACTS
from duly.verify.invariants import VISIBILITY_CHECK, render_statement
from tests.support.arms import Arm, arms_of
from tests.support.plants import BLINDING, PLANTED_OFFENCES, law_of

Ground = psycopg.Connection[Any]
SCHEMAS = [schema for several in CONTRACTS.values() for schema in several]
ARMS = {invariant.name: (invariant, arms) for invariant in INVARIANTS if (arms := arms_of(invariant.statement))}
BLIND = VISIBILITY_CHECK  # is about who asks, and is asked by somebody who does not see every row


@pytest.fixture(scope="module")
def ground(databases: TestDatabases, worker_id: str) -> Generator[Ground, None, None]:
    """A database in which each violation is planted and taken back."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("law", sorted({*ARMS} - {BLIND}))
def test_without_an_arm_some_violation_goes_unnoticed(law: str, ground: Ground) -> None:
    violations = [text for planted, text in PLANTED_OFFENCES.items() if law_of(planted) == law]
    assert needless_arms(ground, law, violations) == [], "no violation is found by these alone"


def test_without_an_arm_a_login_that_does_not_see_every_row_passes(ground: Ground) -> None:
    violations = [f"{text}; set local role {Names().worker}" for text in BLINDING.values()]
    assert needless_arms(ground, BLIND, violations) == [], "nobody who is blind is found by these alone"


def needless_arms(connection: Ground, law: str, violations: Sequence[str]) -> list[str]:
    """Arms of a law without which each of these violations is still found, as it is with all of them."""
    invariant, arms = ARMS[law]
    needless = list(arms)
    for violation in violations:
        with connection.transaction(force_rollback=True):
            connection.execute(violation.encode())
            assert finds(connection, invariant, invariant.statement), violation
            needless = [arm for arm in needless if finds(connection, invariant, arm.without)]
    return [arm.text for arm in needless]


def finds(connection: Ground, invariant: Invariant, statement: str) -> bool:
    """Does a statement of this law find an offender?"""
    asked = render_statement(Invariant(invariant.name, invariant.description, statement, invariant.contract), SCHEMAS)
    return connection.execute(asked.encode()).fetchone() is not None


def arms_in(condition: str) -> list[str]:
    return [arm.text for arm in arms_of(f"select 'x' as offender from t where {condition} order by 1 limit 1")]


def test_what_is_an_arm() -> None:
    assert arms_in("a = 1") == []
    assert arms_in("a = 1 and b between 2 and 3 or c is distinct from d") == [
        "a = 1 and b between 2 and 3",
        "c is distinct from d",
    ]
    assert arms_in("a and (b or (c or 'or' = d))") == ["b", "(c or 'or' = d)", "c", "'or' = d"]
    assert arms_in("not exists (select from u where a or b)") == []
    assert arms_in("(a, f(b, c)) is distinct from (d, e)") == ["a is distinct from d", "f(b, c) is distinct from e"]
    assert arms_in("case when a or b then c when d then false else e > 1 end") == ["a", "b", "c", "e > 1"]
    assert arms_in("a <> case when b then 1 else 0 end") == []


def test_an_arm_is_switched_off_where_it_stands_and_nowhere_else() -> None:
    statement = "select a as offender from t where a = 1 or b = 2 union all select c from u order by 1 limit 3;"
    assert [arm.without for arm in arms_of(statement)] == [
        " select * from (select a as offender from t where a = 1 or b = 2 ) as one_of_them where false union all"
        " select c from u order by 1 limit 3",
        "select a as offender from t where false or b = 2 union all select c from u order by 1 limit 3",
        "select a as offender from t where a = 1 or false union all select c from u order by 1 limit 3",
        "select a as offender from t where a = 1 or b = 2 union all"
        " select * from ( select c from u ) as one_of_them where false order by 1 limit 3",
    ]
    assert arms_of("select 'x' as offender from t where (a, b) is distinct from (c, d)")[0] == Arm(
        "a is distinct from c", "select 'x' as offender from t where ((b) is distinct from (d))"
    )
