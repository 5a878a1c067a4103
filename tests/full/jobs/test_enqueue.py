"""Enqueue in plain SQL: once per key, for the caller's org."""

import threading
from uuid import UUID

import psycopg
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from tests.support.jobs.actions import ORG, Admin, JobActions


def test_a_hundred_equal_requests_at_once_make_one_job(jobs: JobActions, admin: Admin) -> None:
    answers: list[tuple[UUID, str]] = []
    start = threading.Barrier(100)
    address = make_conninfo(admin.info.dsn, user=Names().api)

    def enqueue_once() -> None:
        with psycopg.connect(address, autocommit=True) as connection:
            start.wait(60)
            query = "select id, outcome from ledger.enqueue(%s, 'work', '{}', 'only-once')"
            answers.extend(connection.execute(query, [ORG]).fetchall())

    threads = [threading.Thread(target=enqueue_once) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({key for key, _ in answers}) == 1
    assert sorted(outcome for _, outcome in answers) == ["created"] + ["existing"] * 99
    jobs.verify()
