"""The conformance tests of leases that write a note with the outcome, for a table whose `shape` has a column for it.

from tests.support.conformance.with_note import *
"""

from tests.fast.lease.test_lease import (
    test_settle_repeated_after_a_lost_reply_succeeds_and_is_applied_once,
    test_writes_after_a_settle_roll_back_when_the_lease_is_lost,
)
from tests.full.lease.test_lease import test_settling_10000_rows_with_one_poison_row_settles_9999

__all__ = [
    "test_settle_repeated_after_a_lost_reply_succeeds_and_is_applied_once",
    "test_settling_10000_rows_with_one_poison_row_settles_9999",
    "test_writes_after_a_settle_roll_back_when_the_lease_is_lost",
]
