"""One post per author and UTC day, repeated requests, and expiry."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from duly.apps.posts.model import permanent_name
from duly.db.error_table import ALREADY_POSTED, KEY_REUSED, NO_IMAGE
from duly.db.migrations import Names
from tests.support.locks import wait_until_blocked
from tests.support.posts.actions import HOURS, INTENT, Admin, PostActions, digest_of

DAY = 24 * HOURS


def set_time(posts: PostActions, clock: str) -> None:
    """Move the database's clock to a time of its present UTC day."""
    row = posts.admin.execute(
        "select extract(epoch from (date_trunc('day', duly.clock(), 'UTC') + %s::interval - duly.clock()))::float8",
        [clock],
    ).fetchone()
    assert row is not None
    posts.advance_clock(row[0])


def test_second_post_of_the_day_is_refused_with_the_id_of_the_first(posts: PostActions) -> None:
    set_time(posts, "12:00")
    (key,) = posts.create()
    with pytest.raises(psycopg.DatabaseError) as refusal:
        posts.create_intent()
    assert (refusal.value.sqlstate, refusal.value.diag.message_detail) == (ALREADY_POSTED, str(key))
    assert (posts.count("posts.posts"), posts.count("posts.daily_locks"), posts.count("posts.idempotency_keys")) == (
        1,
        1,
        1,
    )
    posts.create("bo")
    posts.verify()


def test_daily_limit_resets_at_midnight_utc(posts: PostActions) -> None:
    set_time(posts, "23:59:50")
    posts.create()
    posts.advance_clock(20)
    posts.create()
    first, second = posts.columns("daily_key")
    assert first < second
    assert {lock for (lock,) in posts.admin.execute("select id from posts.daily_locks")} == {
        f"{first}_UTC",
        f"{second}_UTC",
    }
    posts.verify()


def test_repeated_request_gets_its_first_response_even_after_midnight(posts: PostActions) -> None:
    set_time(posts, "23:59:50")
    request, upload = uuid4(), posts.upload("anna")
    first = posts.create_intent(request=request, upload=upload)
    posts.advance_clock(20)
    assert posts.create_intent(request=request, upload=upload) == (False, first[1])
    posts.advance_clock(DAY)
    assert posts.create_intent(request=request, upload=upload, is_stored=False) == (False, first[1])
    assert (first[0], posts.count("posts.posts")) == (True, 1)


def test_request_id_is_unique_per_author_and_refused_for_another_request(posts: PostActions) -> None:
    request = uuid4()
    posts.create_intent(request=request)
    with pytest.raises(psycopg.DatabaseError) as refusal:
        posts.create_intent(caption="another", request=request)
    assert refusal.value.sqlstate == KEY_REUSED
    assert posts.create_intent("bo", request=request)[0]


def test_image_must_exist_and_belong_to_the_author(posts: PostActions) -> None:
    for upload, is_stored in ((posts.upload("bo"), True), (f"temp/{uuid4()}.jpg", True), (posts.upload("anna"), False)):
        with pytest.raises(psycopg.DatabaseError) as refusal:
            posts.create_intent(upload=upload, is_stored=is_stored)
        assert refusal.value.sqlstate == NO_IMAGE
    assert [posts.count(f"posts.{name}") for name in ("posts", "daily_locks", "idempotency_keys")] == [0, 0, 0]


def test_refused_request_may_be_repeated_the_next_day(posts: PostActions) -> None:
    set_time(posts, "12:00")
    posts.create()
    request, upload = uuid4(), posts.upload("anna")
    with pytest.raises(psycopg.DatabaseError):
        posts.create_intent(request=request, upload=upload)
    posts.advance_clock(DAY - HOURS)
    assert posts.create_intent(request=request, upload=upload)[0]


def test_a_concurrent_repeated_request_gets_the_same_response(posts: PostActions, admin: Admin) -> None:
    """Two of one request: the second waits for the first to commit, and is then answered the same."""
    request, upload = uuid4(), posts.upload("anna")
    given = ["anna", request, digest_of("My day"), "My day", upload, True]
    dsn = make_conninfo(admin.info.dsn, user=Names().api)
    with psycopg.connect(dsn) as first, psycopg.connect(dsn) as second, ThreadPoolExecutor(1) as threads:
        made = first.execute(INTENT, given).fetchone()
        waiting = threads.submit(lambda: second.execute(INTENT, given).fetchone())
        wait_until_blocked(admin.info.dsn)
        first.commit()
        answered = waiting.result(timeout=30)
    assert made is not None
    assert answered == (False, made[1])


def test_concurrent_request_creates_the_post_if_the_first_rolls_back(posts: PostActions, admin: Admin) -> None:
    request, upload = uuid4(), posts.upload("anna")
    given = ["anna", request, digest_of("My day"), "My day", upload, True]
    dsn = make_conninfo(admin.info.dsn, user=Names().api)
    with psycopg.connect(dsn) as first, psycopg.connect(dsn) as second, ThreadPoolExecutor(1) as threads:
        first.execute(INTENT, given)
        waiting = threads.submit(lambda: second.execute(INTENT, given).fetchone())
        wait_until_blocked(admin.info.dsn)
        first.rollback()
        answered = waiting.result(timeout=30)
        second.commit()
    assert answered is not None
    assert answered[0]
    posts.verify()


async def test_edit_that_races_with_a_claim_changes_nothing(posts: PostActions, admin: Admin) -> None:
    (key,) = posts.create_due()
    edit = "update posts.posts set caption = 'late' where id = %s and status = 'PENDING' returning id"
    with ThreadPoolExecutor(1) as threads:
        async with posts.worker.transaction():
            (lease,) = await posts.claim()
            waiting = threads.submit(lambda: posts.api.execute(edit, [key]).fetchall())
            wait_until_blocked(admin.info.dsn)
        assert waiting.result(timeout=30) == []
    assert lease.row["caption"] == "My day"
    assert posts.columns("caption", "status") == [("My day", "PROCESSING")]


def test_daily_key_separates_author_and_day_unambiguously(admin: Admin) -> None:
    """The day has eight digits at the end: no author id makes a key that reads as another author's."""
    keys = "select posts.daily_key('a', '2024-01-01Z'), posts.daily_key('a_20240101', '2024-01-02Z')"
    assert admin.execute(keys).fetchone() == ("a_20240101", "a_20240101_20240102")
    with pytest.raises(errors.CheckViolation):
        admin.execute("insert into duly.person (uid) values ('_a')")
    query = "select posts.daily_key('anna', '2024-01-01T23:30:00-02:00')"
    assert admin.execute(query).fetchone() == ("anna_20240102",)


def test_idempotency_records_are_kept_for_thirty_days(posts: PostActions) -> None:
    posts.create()
    query = "select posts.retain(100)"
    posts.advance_clock(29 * DAY)
    assert posts.admin.execute(query).fetchone() == (0,)
    posts.advance_clock(2 * DAY)
    assert posts.admin.execute(query).fetchone() == (1,)
    assert (posts.count("posts.posts"), posts.count("posts.daily_locks")) == (1, 1)
    posts.verify()


def test_upload_expires_after_a_day_with_its_unused_permanent_copy(posts: PostActions, admin: Admin) -> None:
    used, unused = posts.upload("anna"), posts.upload("bo")
    posts.create_intent(upload=used)
    query = "select name, permanent from posts.expire_uploads(100) order by permanent"
    assert admin.execute(query).fetchall() == []
    posts.advance_clock(DAY + 1)
    assert admin.execute(query).fetchall() == [(unused, permanent_name(unused)), (used, None)]
    assert posts.count("posts.uploads") == 0


def test_upload_in_use_by_an_open_transaction_does_not_expire(posts: PostActions, admin: Admin) -> None:
    upload = posts.upload("anna")
    posts.advance_clock(DAY + 1)
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api)) as api:
        api.execute(INTENT, ["anna", uuid4(), digest_of("x"), "x", upload, True])
        assert admin.execute("select * from posts.expire_uploads(100)").fetchall() == []
    assert admin.execute("select name, permanent from posts.expire_uploads(100)").fetchall() == [(upload, None)]


@pytest.mark.parametrize("name", ["temp/../secret.jpg", "temp/x.jpg", "posts/anna/1.jpg", f"temp/{UUID(int=1)}.png"])
def test_upload_name_must_have_the_generated_form(name: str, posts: PostActions) -> None:
    posts.add_user("anna")
    with pytest.raises(errors.CheckViolation):
        posts.api.execute("insert into posts.uploads (name, author_id) values (%s, 'anna')", [name])
