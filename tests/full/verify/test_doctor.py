"""`duly doctor`: every check is well once and ill once, by a real cause, and what it tells to do mends it."""

import json
import os
import re
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.embedded import EmbeddedServer
from duly.doctor import CheckContext, Limits, load_checks, open_connection, run_checks
from duly.testing import install_test_clock
from tests.fast.verify.test_doctor import (
    BAD,
    OK,
    WARN,
    Admin,
    MakeRole,
    admin,
    durable_server,
    fast_server,
    make_role,
    open_transaction,
    plain_database,
    run_check,
    settings_for,
)
from tests.support.processes import PYTHON, plain_environment

__all__ = ["admin", "durable_server", "fast_server", "make_role", "plain_database"]


def test_doctor_reports_a_direct_address_of_another_server(
    plain_database: str, fast_server: str, durable_server: str
) -> None:
    finding = run_check("pooler", durable_server, DATABASE_DIRECT_URL=fast_server)
    assert finding.verdict is BAD
    assert "system " in finding.found


def test_doctor_compares_databases_by_name_and_revision_without_pg_control_rights(
    admin: Admin, make_role: MakeRole, databases: Any, worker_id: str
) -> None:
    login = make_role("login in role duly_owner")
    dsn = make_conninfo(admin.info.dsn, user=login)
    admin.execute("revoke execute on function pg_control_system() from public")
    assert run_check("pooler", dsn, DATABASE_DIRECT_URL=dsn).verdict is OK
    with databases.clone(worker_id) as other:
        finding = run_check("pooler", dsn, DATABASE_DIRECT_URL=make_conninfo(other, user=login))
        assert finding.verdict is BAD
        assert "name" in finding.found


@pytest.mark.breaks_invariants
def test_partitions_create_fixes_missing_months_and_moves_rows_out_of_the_edge(admin: Admin) -> None:
    dsn = admin.info.dsn
    for (month,) in admin.execute(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'scheduler.job_runs'::regclass"
        " and inhrelid::regclass::text !~ '(past|future)$'"
    ).fetchall():
        admin.execute(f"drop table {month}".encode())
    finding = run_check("partitions", dsn)
    assert (finding.verdict, finding.fix) == (BAD, "duly partitions create")
    admin.execute("insert into duly.person (uid) values ('anna')")
    admin.execute(
        "insert into scheduler.jobs (user_id, name, rule, first_run_at)"
        " select user_id, 'Rent', 'cron: 0 9 1 * *', duly.now() from duly.person"
    )
    admin.execute(
        "insert into scheduler.job_runs (job_id, scheduled_at, period_key)"
        " select id, '2001-02-03Z', 'x' from scheduler.jobs"
    )
    environment = plain_environment(DATABASE_URL=dsn)
    command = [*PYTHON, "-m", "duly", "partitions", "create"]
    made = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    assert run_check("partitions", dsn).verdict is OK


def test_a_doctor_check_blocked_by_a_lock_warns_and_the_others_run(database: str) -> None:
    with open_transaction(database, "lock table duly.workers in access exclusive mode"):
        findings = {
            finding.check: finding for finding in run_checks(database, settings_for(database), Limits(query_seconds=1))
        }
    assert list(findings) == list(load_checks())
    assert findings["workers"].verdict is WARN
    assert "could not be checked" in findings["workers"].found
    assert findings["server"].verdict is OK


def test_a_server_that_stops_mid_response_blocks_no_other_doctor_check(plain_database: str) -> None:
    with open_connection(plain_database) as connection:
        stopped = connection.info.backend_pid
        os.kill(stopped, signal.SIGSTOP)
        try:
            finding = load_checks()["server"](
                CheckContext(connection, settings_for(plain_database), Limits(query_seconds=0.1))
            )
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert finding.verdict is WARN
        assert finding.found == "could not be checked: no response within 1.1 s"
        assert connection.closed


# Through the front ----------------------------------------------------------------------------------------------------


def run(database: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = plain_environment(DATABASE_URL=database, **variables)
    return subprocess.run(
        [*PYTHON, "-m", "duly", "doctor", *arguments], env=environment, capture_output=True, text=True
    )


def test_doctor_without_problems_exits_with_0_and_prints_a_line_per_check(database: str) -> None:
    answer = run(database)
    assert (answer.returncode, answer.stderr) == (0, "")
    *lines, last = answer.stdout.splitlines()
    for line, check in zip(lines, load_checks(), strict=True):
        assert re.match(rf"(ok|warn) +{check} ", line)
        assert line.startswith("warn") == ("; fix: " in line)
    assert re.fullmatch(r"duly: \d+ ok, \d+ warn, 0 bad", last)


def test_doctor_with_a_problem_exits_with_1(admin: Admin) -> None:
    install_test_clock(admin)
    answer = run(admin.info.dsn, "--json")
    assert (answer.returncode, answer.stderr) == (1, "")
    findings = json.loads(answer.stdout)
    assert [finding["check"] for finding in findings] == list(load_checks())
    assert all(set(finding) == {"check", "verdict", "found", "fix"} for finding in findings)
    assert [finding["check"] for finding in findings if finding["verdict"] == "bad"] == ["test clock"]


def test_doctor_reports_an_unreachable_database_in_one_line_and_exits_with_69() -> None:
    unreachable = "postgresql://user:hunter2@127.0.0.1:1/nowhere"
    answer = run(unreachable)
    assert (answer.returncode, answer.stderr) == (69, "")
    line, last = answer.stdout.splitlines()
    assert re.match(r"bad +connection +DATABASE_URL: cannot connect to 127\.0\.0\.1:1/nowhere: ", line)
    assert last == "duly: 0 ok, 0 warn, 1 bad"
    as_json = run(unreachable, "--json")
    assert as_json.returncode == 69
    (finding,) = json.loads(as_json.stdout)
    assert (finding["check"], finding["verdict"]) == ("connection", "bad")
    assert "hunter2" not in answer.stdout + as_json.stdout


def test_doctor_refuses_contradictory_settings(database: str) -> None:
    answer = run(database, LEASE_HEARTBEAT_SECONDS="200")
    assert answer.returncode == 78
    assert "LEASE_HEARTBEAT_SECONDS" in answer.stderr


def test_doctor_on_an_unmigrated_embedded_server_names_the_migrate_command(home: Path) -> None:
    EmbeddedServer.start(home).close()
    answer = run("", "--json", DULY_HOME=str(home))
    assert answer.returncode == 1
    findings = {finding["check"]: finding for finding in json.loads(answer.stdout)}
    assert findings["schema"]["fix"] == "duly migrate"
    assert findings["roles"]["verdict"] == "bad"
    assert findings["durability"]["verdict"] == "ok"


def test_doctor_reports_an_embedded_server_that_fails_to_start_with_its_last_log_lines(home: Path) -> None:
    with EmbeddedServer.start(home) as server:
        control = server.plan.data / "global" / "pg_control"
    assert server.wait_stopped(60)
    control.unlink()
    answer = run("", DULY_HOME=str(home))
    assert (answer.returncode, answer.stderr) == (69, "")
    line, _ = answer.stdout.splitlines()
    assert re.match(r"bad +connection +PostgreSQL did not start", line)
    assert "pg_control" in line
    assert f"DULY_HOME={home}" in line


def test_doctor_does_not_report_a_starting_session_as_an_open_transaction(admin: Admin, server: str) -> None:
    """On 18 such a session has a transaction and no database yet; others come and go on every busy server."""
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            psycopg.connect(server).close()

    with ThreadPoolExecutor(3) as others:
        coming = [others.submit(come_and_go) for _ in range(3)]
        try:
            found = [run_check("transactions", admin.info.dsn, Limits(transaction_bad_seconds=0)) for _ in range(100)]
        finally:
            over.set()
        for each in coming:
            each.result()
    assert [finding.found for finding in found if finding.verdict is not OK] == []
