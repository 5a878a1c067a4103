"""Errors are classified as server errors, errors of a row, or lock and timeout errors."""

import pytest
from psycopg import errors

from duly.lease.bisect import affects_every_row, is_lock_or_timeout_error


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
def test_error_that_would_affect_every_row_is_a_server_error(error: type[Exception]) -> None:
    assert affects_every_row(error())
    assert not is_lock_or_timeout_error(error())


@pytest.mark.parametrize(
    "error", [errors.QueryCanceled, errors.lookup("25P04"), errors.LockNotAvailable, errors.DeadlockDetected]
)
def test_a_lock_or_timeout_error_is_retried(error: type[Exception]) -> None:
    assert is_lock_or_timeout_error(error())
    assert not affects_every_row(error())


@pytest.mark.parametrize("error", [errors.CheckViolation, errors.ProgramLimitExceeded, errors.DataError, ValueError])
def test_error_caused_by_one_row_is_an_error_of_that_row(error: type[Exception]) -> None:
    assert not affects_every_row(error())
    assert not is_lock_or_timeout_error(error())
