"""Worker processes over posts that are killed, stopped, blocked and taken along: each post appears once, and in time.

An audit of the test's own writes down every version of every post, whoever makes it.
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

from duly.db.migrations import Names
from duly.posts.model import MOST_ATTEMPTS
from tests.posts.hands import HOURS, Admin, Hands
from tests.support.nursery import Nursery
from tests.support.post_worker import PACE, PostNursery

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
    insert into "user".users (uid)
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


def put(hands: Hands, captions: Sequence[str]) -> None:
    """A post with each of these captions, in their order."""
    hands.admin.execute(PUT, {"captions": list(captions)})
    hands.admin.execute(ASK, {"captions": list(captions)})


def put_due(hands: Hands, captions: Sequence[str]) -> None:
    """The same, six hours later."""
    put(hands, captions)
    hands.pass_time(6 * HOURS + 1)


def wait_until(hands: Hands, condition: Callable[[], bool]) -> None:
    """Wait for something in the database."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, hands.look("caption", "status", "process_attempts", "ai_error")
        hands.admin.execute("select pg_sleep(0.02)")


def are_released(hands: Hands) -> bool:
    """Have all posts appeared?"""
    return set(hands.look("status")) == {"RELEASED"}


def check_accounts(hands: Hands) -> None:
    """Every post appeared once and not early, every version is there, authors were told once, no law is broken."""
    assert are_released(hands)
    changes = hands.admin.execute("select id, version, status from audit.change order by nth").fetchall()
    for key, version in hands.look("id", "version"):
        assert [nth for one, nth, _ in changes if one == key] == list(range(1, version + 1))
    released = Counter(key for key, _, status in changes if status == "RELEASED")
    assert released == Counter(hands.look("id"))
    assert hands.admin.execute("select count(*) from audit.change where is_early or is_too_long").fetchone() == (0,)
    asked = "select count(*), count(distinct payload ->> 'postId') from duly.outbox where kind = 'post.released'"
    assert hands.admin.execute(asked).fetchone() == (len(released), len(released))
    hands.verify()


def longest_silence(hands: Hands) -> float:
    """For how many seconds a post was in somebody's hands without a word of them, at most."""
    row = hands.admin.execute(
        "select extract(epoch from max(next - wall))::float8 from ("
        "select status, wall, lead(wall) over (partition by id order by nth) as next from audit.change"
        ") as held where status = 'PROCESSING'"
    ).fetchone()
    assert row is not None
    return row[0]


# Poison ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["exit", "loop", "block"])
def test_a_poison_post_is_started_five_times_and_takes_nobody_along(way: str, hands: Hands, dsn: str) -> None:
    """Nor are those unread that were in the same hands every time: they were started as often as it was."""
    neighbours = [f"say #{nth}" for nth in range(12)]
    put_due(hands, [*neighbours[:6], way, *neighbours[6:]])
    with PostNursery(dsn) as nursery:
        for _ in range(MOST_ATTEMPTS):
            pid = nursery.bear()
            nursery.hear_from(pid, way)
            if way == "exit":
                nursery.see_gone(pid)
            else:
                nursery.end(pid)  # as whoever asks for its health does
            hands.pass_time(PACE.lease_seconds + 1)
        pid = nursery.bear()
        wait_until(hands, lambda: are_released(hands))
        nursery.stop(pid)
        assert way not in {words.split()[0] for _, words in nursery.heard}
    rows = {caption: rest for caption, *rest in hands.look("caption", "process_attempts", "ai_error", "ai")}
    attempts, error, ai = rows.pop(way)
    assert (attempts, error, ai["provider"]) == (MOST_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS", "rules")
    assert {(error, ai["provider"]) for _, error, ai in rows.values()} == {(None, "told")}
    assert max(attempts for attempts, _, _ in rows.values()) <= MOST_ATTEMPTS
    check_accounts(hands)


def test_an_analyzer_that_hangs_is_left_in_time_and_holds_up_nobody(hands: Hands, dsn: str) -> None:
    put_due(hands, ["hang #1", *(f"say #{nth}" for nth in range(30)), "hang #2"])
    with PostNursery(dsn, "analyzer_seconds=0.5", "slots=3") as nursery:
        pid = nursery.bear()
        for _ in range(2):
            nursery.hear_from(pid, "stopped")
        wait_until(hands, lambda: are_released(hands))
        nursery.stop(pid)
    errors = dict(hands.look("caption", "ai_error"))
    assert (errors.pop("hang #1"), errors.pop("hang #2")) == ("AI_TIMEOUT", "AI_TIMEOUT")
    assert set(errors.values()) == {None}
    assert set(hands.look("process_attempts")) == {1}
    check_accounts(hands)


# kill -9 --------------------------------------------------------------------------------------------------------------

KILLS = 20


def test_workers_of_one_name_are_killed_at_random_and_every_post_appears_once(hands: Hands, dsn: str) -> None:
    put_due(hands, [f"pause 0.3 #{nth}" for nth in range(200)])
    with PostNursery(dsn, f"lease_seconds={SHORT_LEASE}", "slots=6") as nursery:
        for _ in range(3):
            nursery.bear()
        for _ in range(KILLS):
            hear_starts(nursery, random.randint(2, 9))  # noqa: S311
            nursery.end(random.choice(nursery.alive))  # noqa: S311
            nursery.bear()
        wait_until(hands, lambda: are_released(hands))
        for pid in list(nursery.alive):
            nursery.stop(pid)
    interrupted = sum(attempts > 1 for attempts in hands.look("process_attempts"))
    assert interrupted > 0
    assert set(hands.look("ai_error")) <= {None, "TOO_MANY_ATTEMPTS"}
    assert all(
        attempts > MOST_ATTEMPTS for attempts, error in hands.look("process_attempts", "ai_error") if error is not None
    )
    assert longest_silence(hands) < SHORT_LEASE + PACE.sweep_seconds + BUSY_MACHINE_SECONDS
    check_accounts(hands)


BEFORE_THE_END = ["after_claim", "after_claim_commit", "before_work", "after_work", "before_settle", "after_settle"]


@pytest.mark.parametrize("point", BEFORE_THE_END)
def test_a_worker_that_ends_at_any_point_leaves_nothing_half_done(point: str, hands: Hands, dsn: str) -> None:
    put_due(hands, [f"say #{nth}" for nth in range(10)])
    with PostNursery(dsn, DULY_CRASHPOINT=point) as nursery:
        nursery.see_gone(nursery.bear())
    assert "RELEASED" not in hands.look("status")
    assert hands.count("duly.outbox") == 0
    hands.pass_time(PACE.lease_seconds + 1)
    with PostNursery(dsn) as nursery:
        pid = nursery.bear()
        wait_until(hands, lambda: are_released(hands))
        nursery.stop(pid)
    committed = 1 if point == "after_claim" else 2  # the claim, at that point, was not
    assert hands.look("process_attempts", "ai_error") == [(committed, None)] * 10
    check_accounts(hands)


def test_a_worker_that_dies_before_it_hears_of_its_commit_leaves_what_it_settled_done(hands: Hands, dsn: str) -> None:
    put_due(hands, [f"say #{nth}" for nth in range(10)])
    with PostNursery(dsn, "slots=4", DULY_CRASHPOINT="after_settle_commit") as nursery:
        nursery.see_gone(nursery.bear())
    settled = {row for row in hands.look("id", "version", "status", "process_attempts") if row[2] == "RELEASED"}
    assert settled
    hands.pass_time(PACE.lease_seconds + 1)
    with PostNursery(dsn) as nursery:
        pid = nursery.bear()
        wait_until(hands, lambda: are_released(hands))
        nursery.stop(pid)
    assert settled <= set(hands.look("id", "version", "status", "process_attempts"))
    check_accounts(hands)


# Zombies --------------------------------------------------------------------------------------------------------------


def test_workers_that_were_stopped_past_their_lease_write_nothing_when_they_go_on(hands: Hands, dsn: str) -> None:
    """Neither while their posts are in other hands of the same name, nor when these have released them."""
    put(hands, [f"pause 3 #{nth}" for nth in range(15)])
    with PostNursery(dsn, "slots=5", "heartbeat_seconds=9") as nursery:  # so that it is their settling which is refused
        zombies = [nursery.bear("sweep_seconds=5") for _ in range(3)]
        wait_until(hands, lambda: hands.admin.execute("select count(*) from duly.workers").fetchone() == (3,))
        hands.pass_time(6 * HOURS + 1)
        hear_starts(nursery, 15)
        send(signal.SIGSTOP, *zombies)
        held = hands.look("status").count("PROCESSING")
        hands.pass_time(PACE.lease_seconds + 1)
        heir = nursery.bear("slots=20")
        hear_starts(nursery, held)
        send(signal.SIGSTOP, heir)
        before = hands.look("id", "status", "version", "lease_owner", "lease_expires_at")
        send(signal.SIGCONT, *zombies)
        wait_until(hands, lambda: nursery.losses().total() >= held)
        assert hands.look("id", "status", "version", "lease_owner", "lease_expires_at") == before
        send(signal.SIGCONT, heir)
        wait_until(hands, lambda: are_released(hands))
        for pid in (*zombies, heir):
            nursery.stop(pid)
    refused = nursery.losses()
    assert refused.total() == held > 0
    assert set(refused) <= set(zombies)
    owners = {key: owner for key, status, _, owner, _ in before if status == "PROCESSING"}
    settled_by = dict(hands.look("id", "settled_by"))
    assert {key: settled_by[key] for key in owners} == owners
    assert Counter(hands.look("process_attempts")) == Counter([2] * held + [1] * (15 - held))
    check_accounts(hands)


def hear_starts(nursery: Nursery, several: int) -> None:
    """Wait until so many readings have begun."""
    for _ in range(several):
        nursery.hear(lambda _, words: words.startswith("pause"))


def send(number: signal.Signals, *pids: int) -> None:
    """Send a signal to workers."""
    for pid in pids:
        os.kill(pid, number)


def test_a_wedged_worker_that_renews_its_leases_loses_them_after_ten_minutes(
    hands: Hands, dsn: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    put_due(hands, [f"wedge {gate}", *(f"say #{nth}" for nth in range(5))])
    lease = 0.45 * TEN_MINUTES
    with PostNursery(dsn, f"lease_seconds={lease}", "slots=6") as nursery:
        wedged = nursery.bear()
        nursery.hear_from(wedged, "wedge")
        assert hands.look("status").count("PROCESSING") == 6
        heir = nursery.bear("slots=20")
        wait_until(hands, lambda: hands.admin.execute("select count(*) from duly.workers").fetchone() == (2,))
        for _ in range(2):
            hands.pass_time(0.4 * TEN_MINUTES)
            seen = hands.look("version")
            wait_until(hands, lambda seen=seen: all(map(int.__gt__, hands.look("version"), (v + 1 for v in seen))))
            assert Counter(hands.look("status", "process_attempts")) == {("PROCESSING", 1): 6}
        hands.pass_time(0.2 * TEN_MINUTES)
        wait_until(hands, lambda: are_released(hands))
        wait_until(hands, lambda: nursery.losses()[wedged] == 6)
        gate.write_text("go on")
        nursery.stop(wedged)
        nursery.stop(heir)
    assert hands.look("process_attempts", "ai_error") == [(2, None)] * 6
    check_accounts(hands)


def test_a_handler_that_never_ends_is_cut_five_times_and_then_let_be(hands: Hands, dsn: str) -> None:
    """Without a limit of its own only the ten minutes end it, however faithfully its lease is renewed."""
    put_due(hands, ["hang"])
    with PostNursery(dsn, f"lease_seconds={0.9 * TEN_MINUTES}", f"analyzer_seconds={10 * TEN_MINUTES}") as nursery:
        pid = nursery.bear()
        for nth in range(1, MOST_ATTEMPTS + 1):
            nursery.hear_from(pid, "hang")
            hands.pass_time(0.8 * TEN_MINUTES)
            (seen,) = hands.look("version")
            wait_until(hands, lambda seen=seen: hands.look("version")[0] > seen + 1)
            assert hands.look("status", "process_attempts") == [("PROCESSING", nth)]
            hands.pass_time(0.2 * TEN_MINUTES)
            nursery.hear_from(pid, "stopped")
        wait_until(hands, lambda: are_released(hands))
        nursery.stop(pid)
    assert nursery.losses()[pid] == MOST_ATTEMPTS
    assert hands.look("process_attempts", "ai_error") == [(MOST_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS")]
    check_accounts(hands)
