"""The conformance tests of leases that every lease table passes unchanged.

    from tests.support.conformance.everywhere import *

That import and a fixture `shape` are all that a table needs. The tests that write a note are in `noted`.
"""

from tests.fast.lease.test_lease import (
    test_a_renewal_that_crosses_a_release_does_not_undo_it,
    test_a_returned_row_keeps_the_due_time_it_had,
    test_a_stale_claim_in_the_same_renewal_does_not_disturb_the_valid_one,
    test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again,
    test_a_worker_with_short_leases_does_not_take_over_a_long_lease,
    test_batches_that_overlap_in_any_order_never_deadlock,
    test_every_claim_counts_as_a_start_and_a_release_takes_it_back,
    test_expired_rows_are_found_whatever_the_backlog_and_locked_ones_are_skipped,
    test_no_index_contains_a_column_that_renewing_writes,
    test_one_locked_row_delays_no_other_and_is_not_lost,
    test_releasing_a_lost_lease_changes_nothing,
    test_renewals_are_hot,
    test_renewing_keeps_a_lease_and_not_renewing_loses_it,
    test_rows_come_in_the_order_they_are_due_and_never_early,
    test_two_batches_that_meet_in_the_middle_from_both_ends_never_deadlock,
    test_two_settles_of_the_same_batch_at_once_both_succeed_and_settle_once,
)
from tests.full.lease.test_plans import test_no_statement_scans_the_table
from tests.support.conformance.fixtures import admin, clock, conformance_dsn, connection, other, workers

__all__ = [
    "admin",
    "clock",
    "conformance_dsn",
    "connection",
    "other",
    "test_a_renewal_that_crosses_a_release_does_not_undo_it",
    "test_a_returned_row_keeps_the_due_time_it_had",
    "test_a_stale_claim_in_the_same_renewal_does_not_disturb_the_valid_one",
    "test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again",
    "test_a_worker_with_short_leases_does_not_take_over_a_long_lease",
    "test_batches_that_overlap_in_any_order_never_deadlock",
    "test_every_claim_counts_as_a_start_and_a_release_takes_it_back",
    "test_expired_rows_are_found_whatever_the_backlog_and_locked_ones_are_skipped",
    "test_no_index_contains_a_column_that_renewing_writes",
    "test_no_statement_scans_the_table",
    "test_one_locked_row_delays_no_other_and_is_not_lost",
    "test_releasing_a_lost_lease_changes_nothing",
    "test_renewals_are_hot",
    "test_renewing_keeps_a_lease_and_not_renewing_loses_it",
    "test_rows_come_in_the_order_they_are_due_and_never_early",
    "test_two_batches_that_meet_in_the_middle_from_both_ends_never_deadlock",
    "test_two_settles_of_the_same_batch_at_once_both_succeed_and_settle_once",
    "workers",
]
