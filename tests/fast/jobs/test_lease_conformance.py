"""Conformance tests of leases on jobs: those whose statements the ledger shares with every other lease table.

Claim and sweep are the ledger's own, and have tests of their own. Tests of state transitions are in `test_machine.py`.
"""

import pytest

from duly.jobs import JOB, JOB_MACHINE
from tests.fast.lease.test_lease import (
    test_a_settle_repeated_after_its_answer_was_lost_is_success_once,
    test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again,
    test_a_worker_with_short_leases_does_not_take_over_a_long_lease,
    test_batches_that_overlap_in_any_order_never_deadlock,
    test_no_index_contains_a_column_that_renewing_writes,
    test_one_locked_row_delays_no_other_and_is_not_lost,
    test_renewals_are_hot,
    test_renewing_keeps_a_lease_and_not_renewing_loses_it,
    test_two_settles_of_the_same_batch_at_once_both_succeed_and_settle_once,
    test_what_follows_a_settle_in_its_transaction_is_fenced,
)
from tests.full.lease.test_lease import test_a_batch_of_10000_with_one_poisonous_row_settles_9999
from tests.support.conformance.fixtures import admin, clock, conformance_dsn, connection, other, workers
from tests.support.conformance.tables import Shape

__all__ = [
    "admin",
    "clock",
    "conformance_dsn",
    "connection",
    "other",
    "test_a_batch_of_10000_with_one_poisonous_row_settles_9999",
    "test_a_settle_repeated_after_its_answer_was_lost_is_success_once",
    "test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again",
    "test_a_worker_with_short_leases_does_not_take_over_a_long_lease",
    "test_batches_that_overlap_in_any_order_never_deadlock",
    "test_no_index_contains_a_column_that_renewing_writes",
    "test_one_locked_row_delays_no_other_and_is_not_lost",
    "test_renewals_are_hot",
    "test_renewing_keeps_a_lease_and_not_renewing_loses_it",
    "test_two_settles_of_the_same_batch_at_once_both_succeed_and_settle_once",
    "test_what_follows_a_settle_in_its_transaction_is_fenced",
    "workers",
]


@pytest.fixture
def shape() -> Shape:
    """Jobs."""
    return Shape(
        table=JOB,
        machine=JOB_MACHINE,
        end="succeeded",
        note="stage",
        poison="x" * 201,
        required={"org_id": "00000000-0000-0000-0000-00000000000a", "type": "work"},
    )
