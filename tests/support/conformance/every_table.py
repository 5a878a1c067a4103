"""The conformance tests of leases that every lease table passes unchanged.

    from tests.support.conformance.every_table import *

That import and a fixture `shape` are all that a table needs. The tests that write a note are in `noted`.
"""

from tests.fast.lease.test_lease import (
    test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again,
    test_a_worker_with_short_leases_does_not_take_over_a_long_lease,
    test_batches_in_opposite_order_never_deadlock,
    test_claim_increments_starts_and_release_decrements_it,
    test_expired_rows_are_claimed_despite_a_backlog_and_locked_ones_skipped,
    test_no_index_contains_a_column_written_by_renewal,
    test_overlapping_batches_never_deadlock_in_any_order,
    test_releasing_a_lost_lease_changes_nothing,
    test_renewal_after_a_release_reports_lost_and_does_not_undo_it,
    test_renewal_skips_a_locked_row_and_reports_it_as_busy,
    test_renewals_are_hot_updates,
    test_renewed_lease_is_kept_and_unrenewed_lease_expires,
    test_row_claimed_again_keeps_its_due_time,
    test_rows_are_claimed_in_due_order_and_never_early,
    test_stale_lease_in_a_renewal_does_not_affect_the_valid_one,
    test_two_concurrent_settles_of_one_batch_succeed_and_are_applied_once,
)
from tests.full.lease.test_plans import test_no_statement_scans_the_table
from tests.support.conformance.fixtures import admin, clock, conformance_dsn, connection, other, workers

__all__ = [
    "admin",
    "clock",
    "conformance_dsn",
    "connection",
    "other",
    "test_a_stale_worker_cannot_settle_after_its_row_was_claimed_again",
    "test_a_worker_with_short_leases_does_not_take_over_a_long_lease",
    "test_batches_in_opposite_order_never_deadlock",
    "test_claim_increments_starts_and_release_decrements_it",
    "test_expired_rows_are_claimed_despite_a_backlog_and_locked_ones_skipped",
    "test_no_index_contains_a_column_written_by_renewal",
    "test_no_statement_scans_the_table",
    "test_overlapping_batches_never_deadlock_in_any_order",
    "test_releasing_a_lost_lease_changes_nothing",
    "test_renewal_after_a_release_reports_lost_and_does_not_undo_it",
    "test_renewal_skips_a_locked_row_and_reports_it_as_busy",
    "test_renewals_are_hot_updates",
    "test_renewed_lease_is_kept_and_unrenewed_lease_expires",
    "test_row_claimed_again_keeps_its_due_time",
    "test_rows_are_claimed_in_due_order_and_never_early",
    "test_stale_lease_in_a_renewal_does_not_affect_the_valid_one",
    "test_two_concurrent_settles_of_one_batch_succeed_and_are_applied_once",
    "workers",
]
