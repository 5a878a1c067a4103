"""Whose fault an error is: the database's, a row's, or somebody's who will be gone in a moment."""

import pytest
from psycopg import errors

from duly.lease.bisect import is_the_databases_fault, will_pass


@pytest.mark.parametrize(
    "error",
    [
        errors.AdminShutdown,
        errors.ReadOnlySqlTransaction,
        errors.DiskFull,
        errors.UndefinedTable,
        errors.InsufficientPrivilege,
        errors.IdleInTransactionSessionTimeout,
    ],
)
def test_nobody_is_blamed_for_what_every_row_would_have_met(error: type[Exception]) -> None:
    assert is_the_databases_fault(error())
    assert not will_pass(error())


@pytest.mark.parametrize(
    "error", [errors.QueryCanceled, errors.lookup("25P04"), errors.LockNotAvailable, errors.DeadlockDetected]
)
def test_what_will_pass_is_tried_again(error: type[Exception]) -> None:
    assert will_pass(error())
    assert not is_the_databases_fault(error())


@pytest.mark.parametrize("error", [errors.CheckViolation, errors.ProgramLimitExceeded, errors.DataError, ValueError])
def test_a_row_is_blamed_for_what_no_other_would_have_met(error: type[Exception]) -> None:
    assert not is_the_databases_fault(error())
    assert not will_pass(error())
