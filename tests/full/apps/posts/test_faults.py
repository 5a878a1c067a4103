"""Worker processes over posts that are killed, stopped, blocked and taken along: each post appears once, and in time.

An audit of the test's own records every version of every post, whichever program writes it.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from duly.apps.posts.model import MAX_ATTEMPTS
from duly.crashpoint import KILLED
from duly.db.migrations import Names
from tests.support.post_worker import EXITED, TUNING, PostWorkerPool
from tests.support.posts.actions import HOURS, Admin, PostActions
from tests.support.worker_pool import WorkerPool

SECONDS = 40.0
BUSY_MACHINE_SECONDS = 3.0
SHORT_LEASE = 2.0
TEN_MINUTES = 600.0

AUDIT = """
create schema audit;
create table audit.change (
    nth bigint generated always as identity primary key,
    wall timestamptz not null default clock_timestamp(),
    at timestamptz not null default duly.clock(),
    id uuid not null,
    version bigint not null,
    status text not null,
    is_early boolean not null,
    is_too_long boolean not null
);
create function audit.note() returns trigger language plpgsql security definer as $$
begin
    insert into audit.change (id, version, status, is_early, is_too_long)
    values (
        new.id, new.version, new.status, new.status <> 'PENDING' and duly.clock() < new.release_time,
        coalesce(new.lease_expires_at > new.processing_since + interval '10 minutes', false)
    );
    return null;
end
$$;
create trigger audit after insert or update on posts.posts for each row execute function audit.note();
"""
PUT = """
with people as (
    insert into duly.person (uid)
    select 'author' || g.nth from unnest(%(captions)s::text[]) with ordinality as g (caption, nth)
    returning uid
)
insert into posts.uploads (name, author_id) select 'temp/' || gen_random_uuid() || '.jpg', uid from people
"""
ASK = """
select posts.create_intent(u.author_id, gen_random_uuid(), sha256('x'), g.caption, u.name, true)
from unnest(%(captions)s::text[]) with ordinality as g (caption, nth)
join posts.uploads as u on u.author_id = 'author' || g.nth
order by g.nth
"""


@pytest.fixture
def dsn(admin: Admin) -> str:
    """Where workers connect, as themselves; whatever they do is written down."""
    admin.execute(AUDIT)
    return make_conninfo(admin.info.dsn, user=Names().worker)


def put(posts: PostActions, captions: Sequence[str]) -> None:
    """A post with each of these captions, in their order."""
    posts.admin.execute(PUT, {"captions": list(captions)})
    posts.admin.execute(ASK, {"captions": list(captions)})


def put_due(posts: PostActions, captions: Sequence[str]) -> None:
    """The same, six hours later."""
    put(posts, captions)
    posts.advance_clock(6 * HOURS + 1)


def wait_until(posts: PostActions, condition: Callable[[], bool]) -> None:
    """Wait for something in the database."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, posts.columns("caption", "status", "process_attempts", "ai_error")
        posts.admin.execute("select pg_sleep(0.02)")


def are_released(posts: PostActions) -> bool:
    """Are all posts released?"""
    return set(posts.columns("status")) == {"RELEASED"}


def check_accounts(posts: PostActions) -> None:
    """Every post was released once and not early, with one notice and every version; every invariant holds."""
    assert are_released(posts)
    changes = posts.admin.execute("select id, version, status from audit.change order by nth").fetchall()
    for key, version in posts.columns("id", "version"):
        assert [nth for one, nth, _ in changes if one == key] == list(range(1, version + 1))
    released = Counter(key for key, _, status in changes if status == "RELEASED")
    assert released == Counter(posts.columns("id"))
    assert posts.admin.execute("select count(*) from audit.change where is_early or is_too_long").fetchone() == (0,)
    query = "select count(*), count(distinct payload ->> 'postId') from duly.outbox where kind = 'post.released'"
    assert posts.admin.execute(query).fetchone() == (len(released), len(released))
    posts.verify()


def longest_silence(posts: PostActions) -> float:
    """The longest time in seconds that a post was claimed without a renewal."""
    row = posts.admin.execute(
        "select extract(epoch from max(next - wall))::float8 from ("
        "select status, wall, lead(wall) over (partition by id order by nth) as next from audit.change"
        ") as held where status = 'PROCESSING'"
    ).fetchone()
    assert row is not None
    return row[0]


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["exit", "loop", "block"])
def test_a_poison_post_is_started_five_times_and_affects_no_other(verb: str, posts: PostActions, dsn: str) -> None:
    """Posts that were claimed together with it every time are read, too, though they were started as often."""
    neighbours = [f"say #{nth}" for nth in range(12)]
    put_due(posts, [*neighbours[:6], verb, *neighbours[6:]])
    with PostWorkerPool(dsn) as pool:
        for _ in range(MAX_ATTEMPTS):
            pid = pool.start()
            pool.wait_for_line(pid, verb)
            if verb == "exit":
                assert pool.exit_status(pid) == EXITED
            else:
                pool.kill(pid)  # as a health check does
            posts.advance_clock(TUNING.lease_seconds + 1)
        pid = pool.start()
        wait_until(posts, lambda: are_released(posts))
        pool.stop(pid)
        assert verb not in {text.split()[0] for _, text in pool.unread}
    rows = {caption: rest for caption, *rest in posts.columns("caption", "process_attempts", "ai_error", "ai")}
    attempts, error, ai = rows.pop(verb)
    assert (attempts, error, ai["provider"]) == (MAX_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS", "rules")
    assert {(error, ai["provider"]) for _, error, ai in rows.values()} == {(None, "fixed")}
    assert max(attempts for attempts, _, _ in rows.values()) <= MAX_ATTEMPTS
    check_accounts(posts)


def test_an_analyzer_that_hangs_times_out_and_blocks_no_other(posts: PostActions, dsn: str) -> None:
    put_due(posts, ["hang #1", *(f"say #{nth}" for nth in range(30)), "hang #2"])
    with PostWorkerPool(dsn, "analyzer_seconds=0.5", "slots=3") as pool:
        pid = pool.start()
        for _ in range(2):
            pool.wait_for_line(pid, "stopped")
        wait_until(posts, lambda: are_released(posts))
        pool.stop(pid)
    errors = dict(posts.columns("caption", "ai_error"))
    assert (errors.pop("hang #1"), errors.pop("hang #2")) == ("AI_TIMEOUT", "AI_TIMEOUT")
    assert set(errors.values()) == {None}
    assert set(posts.columns("process_attempts")) == {1}
    check_accounts(posts)


# kill -9 --------------------------------------------------------------------------------------------------------------

KILLS = 20


def test_posts_are_released_once_although_workers_with_one_name_are_killed(posts: PostActions, dsn: str) -> None:
    put_due(posts, [f"pause 0.3 #{nth}" for nth in range(200)])
    with PostWorkerPool(dsn, f"lease_seconds={SHORT_LEASE}", "slots=6") as pool:
        for _ in range(3):
            pool.start()
        for _ in range(KILLS):
            wait_for_starts(pool, random.randint(2, 9))  # noqa: S311
            pool.kill(random.choice(pool.running))  # noqa: S311
            pool.start()
        wait_until(posts, lambda: are_released(posts))
        for pid in pool.running:
            pool.stop(pid)
    interrupted = sum(attempts > 1 for attempts in posts.columns("process_attempts"))
    assert interrupted > 0
    assert set(posts.columns("ai_error")) <= {None, "TOO_MANY_ATTEMPTS"}
    assert all(
        attempts > MAX_ATTEMPTS
        for attempts, error in posts.columns("process_attempts", "ai_error")
        if error is not None
    )
    assert longest_silence(posts) < SHORT_LEASE + TUNING.sweep_seconds + BUSY_MACHINE_SECONDS
    check_accounts(posts)


BEFORE_THE_END = ["after_claim", "after_claim_commit", "before_work", "after_work", "before_settle", "after_settle"]


@pytest.mark.parametrize("point", BEFORE_THE_END)
def test_a_worker_killed_at_any_crash_point_leaves_no_partial_result(point: str, posts: PostActions, dsn: str) -> None:
    put_due(posts, [f"say #{nth}" for nth in range(10)])
    with PostWorkerPool(dsn, DULY_CRASHPOINT=point) as pool:
        assert pool.exit_status(pool.start()) == KILLED
    assert "RELEASED" not in posts.columns("status")
    assert posts.count("duly.outbox") == 0
    posts.advance_clock(TUNING.lease_seconds + 1)
    with PostWorkerPool(dsn) as pool:
        pid = pool.start()
        wait_until(posts, lambda: are_released(posts))
        pool.stop(pid)
    committed = 1 if point == "after_claim" else 2  # the claim, at that point, was not
    assert posts.columns("process_attempts", "ai_error") == [(committed, None)] * 10
    check_accounts(posts)


def test_posts_settled_by_a_worker_killed_after_its_commit_stay_released(posts: PostActions, dsn: str) -> None:
    put_due(posts, [f"say #{nth}" for nth in range(10)])
    with PostWorkerPool(dsn, "slots=4", DULY_CRASHPOINT="after_settle_commit") as pool:
        assert pool.exit_status(pool.start()) == KILLED
    settled = {row for row in posts.columns("id", "version", "status", "process_attempts") if row[2] == "RELEASED"}
    assert settled
    posts.advance_clock(TUNING.lease_seconds + 1)
    with PostWorkerPool(dsn) as pool:
        pid = pool.start()
        wait_until(posts, lambda: are_released(posts))
        pool.stop(pid)
    assert settled <= set(posts.columns("id", "version", "status", "process_attempts"))
    check_accounts(posts)


# Stalled workers ------------------------------------------------------------------------------------------------------


def test_workers_resumed_after_their_leases_expired_write_nothing(posts: PostActions, dsn: str) -> None:
    """Neither while other workers of the same name have leased their posts, nor after these released them."""
    put(posts, [f"pause 3 #{nth}" for nth in range(15)])
    with PostWorkerPool(dsn, "slots=5", "heartbeat_seconds=9") as pool:  # so that it is their settling which is refused
        stalled = [pool.start("sweep_seconds=5") for _ in range(3)]
        wait_until(posts, lambda: posts.admin.execute("select count(*) from duly.workers").fetchone() == (3,))
        posts.advance_clock(6 * HOURS + 1)
        wait_for_starts(pool, 15)
        send(signal.SIGSTOP, *stalled)
        held = posts.columns("status").count("PROCESSING")
        posts.advance_clock(TUNING.lease_seconds + 1)
        successor = pool.start("slots=20")
        wait_for_starts(pool, held)
        send(signal.SIGSTOP, successor)
        before = posts.columns("id", "status", "version", "lease_owner", "lease_expires_at")
        send(signal.SIGCONT, *stalled)
        wait_until(posts, lambda: pool.lost_leases().total() >= held)
        assert posts.columns("id", "status", "version", "lease_owner", "lease_expires_at") == before
        send(signal.SIGCONT, successor)
        wait_until(posts, lambda: are_released(posts))
        for pid in (*stalled, successor):
            pool.stop(pid)
    refused = pool.lost_leases()
    assert refused.total() == held > 0
    assert set(refused) <= set(stalled)
    owners = {key: owner for key, status, _, owner, _ in before if status == "PROCESSING"}
    settled_by = dict(posts.columns("id", "settled_by"))
    assert {key: settled_by[key] for key in owners} == owners
    assert Counter(posts.columns("process_attempts")) == Counter([2] * held + [1] * (15 - held))
    check_accounts(posts)


def wait_for_starts(pool: WorkerPool, several: int) -> None:
    """Wait until so many readings have begun."""
    for _ in range(several):
        pool.wait_for(lambda _, text: text.startswith("pause"))


def send(number: signal.Signals, *pids: int) -> None:
    """Send a signal to workers."""
    for pid in pids:
        os.kill(pid, number)


def test_a_wedged_worker_that_renews_its_leases_loses_them_after_ten_minutes(
    posts: PostActions, dsn: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    put_due(posts, [f"wedge {gate}", *(f"say #{nth}" for nth in range(5))])
    lease = 0.45 * TEN_MINUTES
    with PostWorkerPool(dsn, f"lease_seconds={lease}", "slots=6") as pool:
        wedged = pool.start()
        pool.wait_for_line(wedged, "wedge")
        assert posts.columns("status").count("PROCESSING") == 6
        successor = pool.start("slots=20")
        wait_until(posts, lambda: posts.admin.execute("select count(*) from duly.workers").fetchone() == (2,))
        for _ in range(2):
            posts.advance_clock(0.4 * TEN_MINUTES)
            seen = posts.columns("version")
            wait_until(posts, lambda seen=seen: all(map(int.__gt__, posts.columns("version"), (v + 1 for v in seen))))
            assert Counter(posts.columns("status", "process_attempts")) == {("PROCESSING", 1): 6}
        posts.advance_clock(0.2 * TEN_MINUTES)
        wait_until(posts, lambda: are_released(posts))
        wait_until(posts, lambda: pool.lost_leases()[wedged] == 6)
        gate.write_text("go on")
        pool.stop(wedged)
        pool.stop(successor)
    assert posts.columns("process_attempts", "ai_error") == [(2, None)] * 6
    check_accounts(posts)


def test_a_handler_that_never_ends_is_stopped_five_times_and_not_started_again(posts: PostActions, dsn: str) -> None:
    """Without a limit of its own only the ten minutes end it, however faithfully its lease is renewed."""
    put_due(posts, ["hang"])
    with PostWorkerPool(dsn, f"lease_seconds={0.9 * TEN_MINUTES}", f"analyzer_seconds={10 * TEN_MINUTES}") as pool:
        pid = pool.start()
        for nth in range(1, MAX_ATTEMPTS + 1):
            pool.wait_for_line(pid, "hang")
            posts.advance_clock(0.8 * TEN_MINUTES)
            (seen,) = posts.columns("version")
            wait_until(posts, lambda seen=seen: posts.columns("version")[0] > seen + 1)
            assert posts.columns("status", "process_attempts") == [("PROCESSING", nth)]
            posts.advance_clock(0.2 * TEN_MINUTES)
            pool.wait_for_line(pid, "stopped")
        wait_until(posts, lambda: are_released(posts))
        pool.stop(pid)
    assert pool.lost_leases()[pid] == MAX_ATTEMPTS
    assert posts.columns("process_attempts", "ai_error") == [(MAX_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS")]
    check_accounts(posts)
