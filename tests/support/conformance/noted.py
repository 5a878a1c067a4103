"""The conformance tests of leases that write a note with the outcome, for a table whose `shape` has a column for it.

from tests.support.conformance.noted import *
"""

from tests.fast.lease.test_lease import (
    test_a_settle_repeated_after_its_answer_was_lost_is_success_once,
    test_what_follows_a_settle_in_its_transaction_is_fenced,
)
from tests.full.lease.test_lease import test_a_batch_of_10000_with_one_poisonous_row_settles_9999

__all__ = [
    "test_a_batch_of_10000_with_one_poisonous_row_settles_9999",
    "test_a_settle_repeated_after_its_answer_was_lost_is_success_once",
    "test_what_follows_a_settle_in_its_transaction_is_fenced",
]
