"""Conformance tests of leases on capture sessions. Tests of state transitions are in `test_machine.py`."""

from tests.fast.apps.ingest.test_lease_conformance import shape
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.every_table import *  # noqa: F403
from tests.support.conformance.with_note import *  # noqa: F403

__all__ = ["shape", "test_no_statement_scans_a_table_that_was_analysed_while_idle"]
