"""One post per author and UTC day, the same request twice, and what leaves."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import errors
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.posts.model import kept_name
from duly.posts.store import ALREADY_POSTED, NO_IMAGE, REQUEST_ID_REUSED
from tests.posts.hands import HOURS, INTENT, Admin, Hands, digest_of
from tests.support.locks import wait_until_blocked

DAY = 24 * HOURS


def set_time(hands: Hands, clock: str) -> None:
    """Move the database's clock to a time of its present UTC day."""
    row = hands.admin.execute(
        "select extract(epoch from (date_trunc('day', duly.clock(), 'UTC') + %s::interval - duly.clock()))::float8",
        [clock],
    ).fetchone()
    assert row is not None
    hands.pass_time(row[0])


def test_a_second_post_of_the_day_is_refused_with_the_first_ones_id(hands: Hands) -> None:
    set_time(hands, "12:00")
    (key,) = hands.put()
    with pytest.raises(psycopg.DatabaseError) as refusal:
        hands.ask()
    assert (refusal.value.sqlstate, refusal.value.diag.message_detail) == (ALREADY_POSTED, str(key))
    assert (hands.count("posts.posts"), hands.count("posts.daily_locks"), hands.count("posts.idempotency_keys")) == (
        1,
        1,
        1,
    )
    hands.put("bo")
    hands.verify()


def test_the_day_turns_at_midnight_utc(hands: Hands) -> None:
    set_time(hands, "23:59:50")
    hands.put()
    hands.pass_time(20)
    hands.put()
    first, second = hands.look("daily_key")
    assert first < second
    assert {lock for (lock,) in hands.admin.execute("select id from posts.daily_locks")} == {
        f"{first}_UTC",
        f"{second}_UTC",
    }
    hands.verify()


def test_the_same_request_gets_the_answer_it_got_also_after_midnight_and_after_the_release(hands: Hands) -> None:
    set_time(hands, "23:59:50")
    request, upload = uuid4(), hands.upload("anna")
    first = hands.ask(request=request, upload=upload)
    hands.pass_time(20)
    assert hands.ask(request=request, upload=upload) == (False, first[1])
    hands.pass_time(DAY)
    assert hands.ask(request=request, upload=upload, is_kept=False) == (False, first[1])
    assert (first[0], hands.count("posts.posts")) == (True, 1)


def test_another_request_under_the_same_id_is_refused_and_the_ids_of_others_are_theirs(hands: Hands) -> None:
    request = uuid4()
    hands.ask(request=request)
    with pytest.raises(psycopg.DatabaseError) as refusal:
        hands.ask(caption="another", request=request)
    assert refusal.value.sqlstate == REQUEST_ID_REUSED
    assert hands.ask("bo", request=request)[0]


def test_an_image_must_be_there_and_be_the_authors(hands: Hands) -> None:
    for upload, is_kept in ((hands.upload("bo"), True), (f"temp/{uuid4()}.jpg", True), (hands.upload("anna"), False)):
        with pytest.raises(psycopg.DatabaseError) as refusal:
            hands.ask(upload=upload, is_kept=is_kept)
        assert refusal.value.sqlstate == NO_IMAGE
    assert [hands.count(f"posts.{name}") for name in ("posts", "daily_locks", "idempotency_keys")] == [0, 0, 0]


def test_a_refused_request_may_come_again_the_next_day(hands: Hands) -> None:
    set_time(hands, "12:00")
    hands.put()
    request, upload = uuid4(), hands.upload("anna")
    with pytest.raises(psycopg.DatabaseError):
        hands.ask(request=request, upload=upload)
    hands.pass_time(DAY - HOURS)
    assert hands.ask(request=request, upload=upload)[0]


def test_whoever_waits_for_the_same_request_gets_its_answer(hands: Hands, admin: Admin) -> None:
    """Two of one request: the second waits for the first to commit, and is then answered the same."""
    request, upload = uuid4(), hands.upload("anna")
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


def test_whoever_waits_for_a_request_that_is_undone_makes_the_post(hands: Hands, admin: Admin) -> None:
    request, upload = uuid4(), hands.upload("anna")
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
    hands.verify()


async def test_an_edit_that_races_with_the_claim_loses_cleanly(hands: Hands, admin: Admin) -> None:
    (key,) = hands.put_due()
    edit = "update posts.posts set caption = 'late' where id = %s and status = 'PENDING' returning id"
    with ThreadPoolExecutor(1) as threads:
        async with hands.worker.transaction():
            (lease,) = await hands.hold()
            waiting = threads.submit(lambda: hands.api.execute(edit, [key]).fetchall())
            wait_until_blocked(admin.info.dsn)
        assert waiting.result(timeout=30) == []
    assert lease.row["caption"] == "My day"
    assert hands.look("caption", "status") == [("My day", "PROCESSING")]


def test_a_daily_key_tells_author_and_day_apart(admin: Admin) -> None:
    """The day has eight digits at the end: nobody's key can be read as another's, whatever they are called."""
    keys = "select posts.daily_key('a', '2024-01-01Z'), posts.daily_key('a_20240101', '2024-01-02Z')"
    assert admin.execute(keys).fetchone() == ("a_20240101", "a_20240101_20240102")
    with pytest.raises(errors.CheckViolation):
        admin.execute("insert into \"user\".users (uid) values ('_a')")
    asked = "select posts.daily_key('anna', '2024-01-01T23:30:00-02:00')"
    assert admin.execute(asked).fetchone() == ("anna_20240102",)


def test_answers_are_kept_for_thirty_days(hands: Hands) -> None:
    hands.put()
    asked = "select posts.retain(100)"
    hands.pass_time(29 * DAY)
    assert hands.admin.execute(asked).fetchone() == (0,)
    hands.pass_time(2 * DAY)
    assert hands.admin.execute(asked).fetchone() == (1,)
    assert (hands.count("posts.posts"), hands.count("posts.daily_locks")) == (1, 1)
    hands.verify()


def test_an_upload_leaves_after_a_day_and_takes_what_was_kept_for_no_post(hands: Hands, admin: Admin) -> None:
    used, unused = hands.upload("anna"), hands.upload("bo")
    hands.ask(upload=used)
    asked = "select name, kept from posts.expire_uploads(100) order by kept"
    assert admin.execute(asked).fetchall() == []
    hands.pass_time(DAY + 1)
    assert admin.execute(asked).fetchall() == [(unused, kept_name(unused)), (used, None)]
    assert hands.count("posts.uploads") == 0


def test_an_upload_that_becomes_a_post_this_instant_is_not_swept_away(hands: Hands, admin: Admin) -> None:
    upload = hands.upload("anna")
    hands.pass_time(DAY + 1)
    with psycopg.connect(make_conninfo(admin.info.dsn, user=Names().api)) as api:
        api.execute(INTENT, ["anna", uuid4(), digest_of("x"), "x", upload, True])
        assert admin.execute("select * from posts.expire_uploads(100)").fetchall() == []
    assert admin.execute("select name, kept from posts.expire_uploads(100)").fetchall() == [(upload, None)]


@pytest.mark.parametrize("name", ["temp/../secret.jpg", "temp/x.jpg", "posts/anna/1.jpg", f"temp/{UUID(int=1)}.png"])
def test_only_names_of_ours_are_uploads(name: str, hands: Hands) -> None:
    hands.know("anna")
    with pytest.raises(errors.CheckViolation):
        hands.api.execute("insert into posts.uploads (name, author_id) values (%s, 'anna')", [name])
