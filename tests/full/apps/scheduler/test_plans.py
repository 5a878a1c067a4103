"""The lease statements of schedule plans use an index, even when no plan was due at ANALYZE."""

from tests.fast.apps.scheduler.test_lease_conformance import alone, shape
from tests.full.lease.test_plans import test_no_statement_scans_a_table_that_was_analysed_while_idle
from tests.support.conformance.fixtures import admin, conformance_dsn, connection, workers

__all__ = [
    "admin",
    "alone",
    "conformance_dsn",
    "connection",
    "shape",
    "test_no_statement_scans_a_table_that_was_analysed_while_idle",
    "workers",
]
