"""The bounds of a job that stand in SQL a second time, in its columns and functions, are those of `bounds.py`."""

from duly.bounds import MAX_ACTOR_LENGTH, MAX_CONCURRENCY, MAX_KEY_LENGTH, MAX_NAME_LENGTH
from duly.jobs.enqueue import MAX_BATCH
from duly.outcomes import MAX_CODE_LENGTH, MAX_TEXT_LENGTH
from tests.support.jobs.actions import Admin


def test_columns_have_the_lengths_of_the_bounds(admin: Admin) -> None:
    lengths = admin.execute(
        "select column_name, character_maximum_length from information_schema.columns"
        " where table_schema = 'ledger' and table_name = 'job' and character_maximum_length is not null"
    )
    assert dict(lengths) == {
        "type": MAX_NAME_LENGTH,
        "idempotency_key": MAX_KEY_LENGTH,
        "requested_by": MAX_ACTOR_LENGTH,
        "last_error_code": MAX_CODE_LENGTH,
        "last_error_message": MAX_TEXT_LENGTH,
    }


def test_limits_of_a_type_have_the_bounds_of_a_job(admin: Admin) -> None:
    checks = dict(
        admin.execute(
            "select conname, pg_get_constraintdef(oid) from pg_constraint where conrelid = 'ledger.job_limit'::regclass"
        )
    )
    for column in ("queue", "type"):
        assert f"(char_length({column}) <= {MAX_NAME_LENGTH})" in checks[f"ck_job_limit__{column}"]
    assert f"(max_running <= {MAX_CONCURRENCY})" in checks["ck_job_limit__max_running"]


def test_the_database_takes_a_batch_of_the_size_that_is_sent(admin: Admin) -> None:
    ((source,),) = admin.execute("select prosrc from pg_proc where oid = 'ledger.enqueue_many'::regproc")
    assert f"max_batch constant bigint := {MAX_BATCH};" in source
