"""The rows that growth is measured with are such as duly itself could have written."""

import psycopg
import pytest

from duly.verify.invariants import check
from tools.bulk_data import BACKLOG, FINISHED, MIXED, build_jobs, count_events
from tools.bulk_data.builder import ORGS

SAMPLE = 100_000


@pytest.mark.breaks_invariants
@pytest.mark.long
def test_a_hundred_thousand_jobs_break_no_invariant(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        indexes = connection.execute(
            "select indexdef from pg_indexes where schemaname = 'ledger' order by 1"
        ).fetchall()
        build_jobs(connection, SAMPLE, MIXED)
        after = connection.execute("select indexdef from pg_indexes where schemaname = 'ledger' order by 1").fetchall()
        assert after == indexes
        assert check(connection, ["duly", "ledger"]) == []
        row = connection.execute(
            "select count(*), count(distinct org_id), count(distinct (type, queue)), count(distinct status),"
            " count(idempotency_key), count(requested_by), count(distinct priority) from ledger.job"
        ).fetchone()
        assert row is not None
        jobs, orgs, kinds, statuses, keys, requesters, priorities = row
        assert (jobs, orgs, kinds, statuses, priorities) == (SAMPLE, ORGS, 10, 5, 3)
        assert keys == 0.3 * SAMPLE
        assert requesters == 0.5 * SAMPLE
        assert 3 * SAMPLE < count_events(connection) < 3.5 * SAMPLE


@pytest.mark.breaks_invariants
def test_finished_and_waiting_jobs_are_added_to_each_other_and_none_is_due_for_whoever_handles_them(
    database: str,
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        build_jobs(connection, 2000, FINISHED)
        build_jobs(connection, 2000, BACKLOG, first=2001, handled=("noop",))
        assert check(connection, ["duly", "ledger"]) == []
        rows = connection.execute("select status, count(*) from ledger.job group by 1").fetchall()
        assert {status for status, _ in rows} == {"queued", "succeeded", "dead_letter", "canceled"}
        assert dict(rows)["queued"] == 2000
        due = "select type, count(*) from ledger.job where status = 'queued' and run_at <= now() group by 1"
        assert "noop" not in dict(connection.execute(due).fetchall())
        assert len(connection.execute(due).fetchall()) == 8
        with pytest.raises(psycopg.DatabaseError, match="cannot go from"):
            connection.execute("update ledger.job set status = 'running' where status = 'succeeded'")
