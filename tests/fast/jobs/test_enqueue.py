"""Enqueue in plain SQL: once per key, for the caller's org."""

from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from duly.backoff import Backoff, BackoffPolicy
from duly.db.error_table import KEY_REUSED
from duly.db.migrations import Names
from duly.jobs import repository
from duly.jobs.enqueue import insert_job
from duly.jobs.model import JobOptions, JobRequest
from tests.support.jobs.actions import ORG, OTHER_ORG, Admin, Connection, JobActions
from tests.support.jobs.insert_jobs import insert_jobs


def test_enqueued_job_has_the_defaults_of_the_contract(jobs: JobActions, admin: Admin) -> None:
    (key,) = jobs.enqueue()
    assert jobs.columns("id", "status", "attempt", "max_attempts", "backoff_policy", "priority", "starts", "queue") == [
        (key, "queued", 0, 5, "exp", 0, 0, "default")
    ]
    assert jobs.columns("started_at", "finished_at", "last_error_code", "result", "lease_owner") == [(None,) * 5]
    assert jobs.events(key) == [(None, "queued", None)]
    assert key.version == 7
    jobs.verify()


async def test_enqueue_stores_every_option_of_the_request(jobs: JobActions, worker: Connection) -> None:
    options = JobOptions(7, 3, Backoff(BackoffPolicy.FIXED, 2.0, 9.0), 30.0, 86_400.0)
    request = JobRequest(ORG, "mail", {"to": "anna"}, "slow", "order:42", None, 10.0, "anna", "key_1", options)
    created = await insert_job(worker, request)
    again = await insert_job(worker, request)
    assert (created["outcome"], again["outcome"], created["id"] == again["id"]) == ("created", "existing", True)
    job = await repository.find_job(worker, ORG, created["id"])
    assert job
    assert (job.type, job.payload, job.queue, job.idempotency_key) == ("mail", {"to": "anna"}, "slow", "order:42")
    assert (job.priority, job.max_attempts, job.timeout_seconds) == (7, 3, 30.0)
    assert (job.backoff_policy, job.backoff_base_seconds, job.backoff_cap_seconds) == (BackoffPolicy.FIXED, 2.0, 9.0)
    assert (job.run_at - job.created_at).total_seconds() == 10.0
    assert jobs.columns("requested_by") == ["anna"]
    assert jobs.events(job.id) == [(None, "queued", {"actor": "key_1", "requested_by": "anna"})]
    assert await repository.find_job(worker, OTHER_ORG, job.id) is None


def test_first_event_names_no_actor_when_the_caller_states_only_for_whom(jobs: JobActions, admin: Admin) -> None:
    (one,) = jobs.enqueue(requested_by="anna")
    ((other,),) = admin.execute(
        "select id from ledger.enqueue_many(org => %s, type => 'work', payloads => array['{}'::jsonb],"
        " requested_by => 'anna')",
        (ORG,),
    )
    assert jobs.events(one) == jobs.events(other) == [(None, "queued", {"requested_by": "anna"})]


def test_delay_of_zero_is_the_same_request_as_no_delay(jobs: JobActions, admin: Admin) -> None:
    assert jobs.enqueue(key="k") == jobs.enqueue(key="k", delay_seconds=0.0)
    jobs.verify()


def test_job_that_is_deleted_while_its_key_is_read_is_an_error_that_drivers_repeat(
    jobs: JobActions, admin: Admin
) -> None:
    admin.execute("create function vanish() returns trigger language plpgsql as 'begin return null; end'")
    admin.execute("create trigger vanish before insert on ledger.job for each row execute function vanish()")
    with pytest.raises(psycopg.errors.SerializationFailure, match="the job of this key was deleted meanwhile; retry"):
        jobs.enqueue(key="k")


def test_same_key_returns_the_same_job_and_another_request_is_refused(jobs: JobActions, admin: Admin) -> None:
    first = jobs.enqueue(key="k", payload={"b": 1, "a": [1, 2]})
    assert jobs.enqueue(key="k", payload={"a": [1, 2], "b": 1}) == first
    same: dict[str, Any] = {"payload": {"a": [1, 2], "b": 1}}
    others: list[dict[str, Any]] = [{"payload": {"a": 1}}, {"type": "other"}, {"queue": "slow"}, {"delay_seconds": 5.0}]
    for other in others:
        with pytest.raises(psycopg.DatabaseError, match='key "k" already belongs to job') as refusal:
            jobs.enqueue(key="k", **same | other)
        assert refusal.value.sqlstate == KEY_REUSED
    assert jobs.enqueue(key="k", payload={"a": [1, 2], "b": 1}, priority=9, max_attempts=1) == first
    assert jobs.enqueue(key="k", org=OTHER_ORG) != first
    assert len(jobs.columns("id")) == 2


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"queue": "images"}, "queue default, not images"),
        ({"type": "thumbnail"}, "type work, not thumbnail"),
        ({"payload": {"card": "4111"}}, "another payload"),
        ({"delay_seconds": 5.0}, "another due time"),
        ({"run_at": "2030-01-01Z", "queue": "images"}, "queue default, not images, another due time"),
    ],
)
def test_reused_key_error_names_the_job_its_status_and_the_difference(
    other: dict[str, Any], differs: str, jobs: JobActions
) -> None:
    (first,) = jobs.enqueue(key="order:42", payload={"name": "Anna"})
    given: dict[str, Any] = {"key": "order:42", "payload": {"name": "Anna"}, **other}
    with pytest.raises(psycopg.DatabaseError) as refusal:
        jobs.enqueue(**given)
    diagnostics = refusal.value.diag
    assert (
        diagnostics.message_primary
        == f'key "order:42" already belongs to job {first} (queued), asked for with {differs}'
    )
    assert diagnostics.message_hint == "use a key of its own for every request"
    assert "Anna" not in f"{diagnostics.message_detail} {diagnostics.context}"


def test_key_of_a_canceled_job_is_refused_with_the_command_that_releases_it(jobs: JobActions, admin: Admin) -> None:
    (first,) = jobs.enqueue(key="order:42")
    admin.execute("update ledger.job set status = 'canceled'")
    with pytest.raises(psycopg.DatabaseError, match=r"\(canceled\)") as refusal:
        jobs.enqueue(key="order:42", queue="images")
    assert refusal.value.diag.message_hint == f"to free the key: duly jobs cancel {first} --release-key"


def test_key_can_be_used_again_after_retention_deletes_its_job(jobs: JobActions, admin: Admin) -> None:
    (first,) = jobs.enqueue(key="k")
    admin.execute("update ledger.job set status = 'canceled'")
    assert jobs.enqueue(key="k") == [first]
    jobs.advance_clock(31 * 86_400)
    assert admin.execute("select ledger.purge(10)").fetchone() == (1,)
    assert jobs.enqueue(key="k") != [first]


def test_rolled_back_enqueue_creates_no_job(jobs: JobActions, api: Admin) -> None:
    with api.transaction(force_rollback=True):
        api.execute("select ledger.enqueue(%s, 'work')", [ORG])
    assert jobs.columns("id") == []


async def test_enqueue_many_returns_jobs_in_the_order_given(jobs: JobActions, worker: Connection) -> None:
    (before,) = jobs.enqueue(key="b", payload={"n": 1})
    payloads = [{"n": n} for n in range(4)]
    rows = await insert_jobs(worker, JobRequest(ORG, "work"), payloads, ["a", "b", None, "c"])
    assert [row["outcome"] for row in rows] == ["created", "existing", "created", "created"]
    assert rows[1]["id"] == before
    stored = dict(jobs.columns("id", "payload"))
    assert [stored[row["id"]] for row in rows] == payloads
    jobs.verify()


async def test_equal_keys_in_one_call_create_one_job(jobs: JobActions, worker: Connection) -> None:
    rows = await insert_jobs(worker, JobRequest(ORG, "work"), [{}, {}, {}], ["a", "a", "a"])
    assert len({row["id"] for row in rows}) == 1
    assert sorted(row["outcome"] for row in rows) == ["created", "existing", "existing"]


async def test_one_reused_key_refuses_the_whole_call(jobs: JobActions, worker: Connection) -> None:
    jobs.enqueue(key="b")
    with pytest.raises(psycopg.DatabaseError, match=r'key "b" already belongs to job .*another payload') as refusal:
        await insert_jobs(worker, JobRequest(ORG, "work"), [{}, {"other": True}], ["a", "b"])
    assert refusal.value.sqlstate == KEY_REUSED
    assert len(jobs.columns("id")) == 1


async def test_jobs_of_one_call_are_claimed_in_the_order_given(jobs: JobActions, worker: Connection) -> None:
    await insert_jobs(worker, JobRequest(ORG, "work"), [{"n": n} for n in range(50)])
    seen = [lease.row["payload"]["n"] for _ in range(5) for lease in await jobs.claim(limit=10)]
    assert [sorted(seen[n : n + 10]) for n in range(0, 50, 10)] == [list(range(n, n + 10)) for n in range(0, 50, 10)]


@pytest.mark.parametrize("arrays", [{"idempotency_keys": ["a"]}, {"run_ats": []}])
async def test_arrays_of_unequal_length_are_refused(arrays: dict[str, Any], worker: Connection) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="as many keys"):
        await insert_jobs(worker, JobRequest(ORG, "work"), [{}, {}], **arrays)


@pytest.mark.parametrize(
    ("constraint", "options"),
    [
        ("ck_job__type", {"type": ""}),
        ("ck_job__type", {"type": "two words"}),
        ("ck_job__queue", {"queue": "*"}),
        ("ck_job__queue", {"queue": "q" * 101}),
        ("ck_job__priority", {"priority": 101}),
        ("ck_job__priority", {"priority": -101}),
        ("ck_job__max_attempts", {"max_attempts": 0}),
        ("ck_job__max_attempts", {"max_attempts": 1001}),
        ("ck_job__idempotency_key", {"key": ""}),
        ("ck_job__payload", {"payload": Jsonb([])}),
        ("ck_job__payload", {"payload": Jsonb(None)}),
        ("ck_job__payload", {"payload": {"text": "x" * 1_048_576}}),
        ("ck_job__timeout_seconds", {"timeout_seconds": 0.0}),
        ("ck_job__timeout_seconds", {"timeout_seconds": float("nan")}),
        ("ck_job__backoff", {"backoff_base_seconds": -1.0}),
        ("ck_job__backoff", {"backoff_base_seconds": 601.0}),
        ("ck_job__backoff", {"backoff_cap_seconds": float("nan")}),
        ("ck_job__retain_for", {"retain_for": "23 hours"}),
        ("ck_job__retain_for", {"retain_for": "20 years"}),
        ("ck_job__years_2000_to_2200", {"run_at": "1999-12-31T23:59:59Z"}),
        ("ck_job__years_2000_to_2200", {"run_at": "infinity"}),
    ],
)
def test_invalid_option_violates_the_named_constraint(
    constraint: str, options: dict[str, Any], jobs: JobActions
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refusal:
        jobs.enqueue(**options)
    assert refusal.value.diag.constraint_name == constraint


@pytest.mark.parametrize("options", [{"key": "k" * 256}, {"type": "t" * 101}, {"requested_by": "r" * 256}])
def test_overlong_text_is_refused(options: dict[str, Any], jobs: JobActions) -> None:
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        jobs.enqueue(**options)


def test_run_at_together_with_delay_is_refused(jobs: JobActions) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="not both"):
        jobs.enqueue(run_at="2030-01-01Z", delay_seconds=1.0)


def test_tenant_enqueues_only_for_its_own_org_and_leaves_no_setting_behind(jobs: JobActions, api: Admin) -> None:
    with api.transaction():
        api.execute("select set_config('app.current_org_id', %s, true)", [str(ORG)])
        api.execute("select ledger.enqueue(%s, 'work')", [ORG])
        for call in ("ledger.enqueue(%s, 'work')", "ledger.enqueue_many(%s, 'work', array['{}'::jsonb])"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="another org"), api.transaction():
                api.execute(f"select {call}".encode(), [OTHER_ORG])
    api.execute("select ledger.enqueue(%s, 'work')", [OTHER_ORG])
    settings = "select current_setting('app.current_org_id', true), current_setting('duly.retention', true)"
    assert api.execute(settings).fetchone() in {("", None), ("", "")}
    assert sorted(jobs.columns("org_id")) == [ORG, OTHER_ORG]


def test_readonly_role_cannot_enqueue(admin: Admin) -> None:
    with (
        psycopg.connect(make_conninfo(admin.info.dsn, user=Names().readonly), autocommit=True) as reader,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        reader.execute("select ledger.enqueue(%s, 'work')", [ORG])


@pytest.mark.parametrize(("delay", "notification_count"), [(None, 1), (60.0, 0)])
def test_enqueue_notifies_workers_only_of_jobs_that_are_due_now(
    delay: float | None, notification_count: int, admin: Admin, api: Admin
) -> None:
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().worker), autocommit=True) as listener:
        listener.execute("listen duly_ledger")
        api.execute("select ledger.enqueue(%s, 'work', delay_seconds => %s)", [ORG, delay])
        admin.execute("select pg_notify('duly_ledger', 'the end')")
        received = [
            notification.payload for notification in listener.notifies(timeout=30, stop_after=notification_count + 1)
        ]
    assert received == [""] * notification_count + ["the end"]
