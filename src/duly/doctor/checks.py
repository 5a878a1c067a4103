"""All checks by name, those of the applications last, in the order in which they run and are printed."""

from collections.abc import Generator, Mapping
from typing import Final

from duly.applications import ALL, list_applications, load
from duly.doctor.clock import check_clock, check_test_clock
from duly.doctor.connection import open_connection
from duly.doctor.context import DEFAULT_LIMITS, Check, CheckContext, CheckFunction, Limits, make_check
from duly.doctor.finding import Finding
from duly.doctor.locks import check_locks
from duly.doctor.messages import check_messages
from duly.doctor.network import check_listen, check_pooler
from duly.doctor.roles import check_roles, check_row_security
from duly.doctor.schema import check_contracts, check_schema
from duly.doctor.server import (
    check_autovacuum,
    check_connections,
    check_durability,
    check_jit,
    check_server,
    check_timeouts,
)
from duly.doctor.telegram import check_telegram
from duly.doctor.transactions import (
    check_prepared_transactions,
    check_replication_slots,
    check_transaction_ids,
    check_transactions,
    check_vacuum,
)
from duly.doctor.workers import check_heartbeat, check_workers
from duly.settings import Settings

ENGINE_CHECKS: Final[dict[str, CheckFunction]] = {
    "server": check_server,
    "durability": check_durability,
    "connections": check_connections,
    "timeouts": check_timeouts,
    "autovacuum": check_autovacuum,
    "jit": check_jit,
    "clock": check_clock,
    "test clock": check_test_clock,
    "pooler": check_pooler,
    "listen": check_listen,
    "schema": check_schema,
    "contracts": check_contracts,
    "roles": check_roles,
    "row security": check_row_security,
    "transactions": check_transactions,
    "locks": check_locks,
    "prepared transactions": check_prepared_transactions,
    "replication slots": check_replication_slots,
    "vacuum": check_vacuum,
    "transaction ids": check_transaction_ids,
    "heartbeat": check_heartbeat,
    "workers": check_workers,
    "messages": check_messages,
    "telegram": check_telegram,
}


def load_checks(apps: str = ALL) -> Mapping[str, Check]:
    """Load the checks of the engine and of the applications that a value of DULY_APPS switches on."""
    functions = ENGINE_CHECKS | {
        name: load(path) for application in list_applications(apps) for name, path in application.checks.items()
    }
    return {name: make_check(name, function) for name, function in functions.items()}


def run_checks(dsn: str, settings: Settings, limits: Limits = DEFAULT_LIMITS) -> Generator[Finding, None, None]:
    """Run all checks in order and yield their findings; raises Unavailable when the database does not respond."""
    connection = open_connection(dsn)
    try:
        for check in load_checks(settings.apps).values():
            if connection.closed:
                connection = open_connection(dsn)
            yield check(CheckContext(connection, settings, limits))
    finally:
        connection.close()
