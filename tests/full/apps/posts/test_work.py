"""Posts in a running worker: whatever an analyzer does, a post is released once, in time, with how it was read."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest
from psycopg import sql

from duly.apps.posts import repository
from duly.apps.posts.model import MAX_ATTEMPTS
from duly.apps.posts.rules import RULES_VERSION, RulesAnalyzer
from duly.apps.posts.states import POST
from duly.apps.posts.work import PostWork, ReadResult
from duly.lease.operations import Lease
from duly.lease.work import LeaseOutcome
from duly.worker.runner import Worker
from tests.fast.apps.posts.test_work import (
    CALM,
    TUNING,
    Reader,
    as_analyzer,
    create_due_posts,
    figure,
    release_all,
    until_released,
)
from tests.support.actions import working
from tests.support.posts.actions import HOURS, LEASE, Admin, PostActions


def authors(several: int) -> list[str]:
    """Add this many people."""
    return [f"author{nth}" for nth in range(several)]


async def until_polled(posts: PostActions, worker: Worker) -> None:
    """Wait until the worker has looked for posts that are due, twice, and for dead holders."""
    before = figure(worker, "duly_claim_seconds_count")
    await posts.until(lambda: figure(worker, "duly_claim_seconds_count") >= before + 3)


# Releasing ------------------------------------------------------------------------------------------------------------


async def test_due_posts_are_released_in_batches_with_the_provider_of_their_reading(
    posts: PostActions, dsn: str
) -> None:
    create_due_posts(posts, ["What a wonderful day, I love it!"] * 120)
    await release_all(posts, dsn, PostWork(RulesAnalyzer(), TUNING))
    for ai in posts.columns("ai"):
        assert set(ai) == {"mood", "music", "reasoning", "provider", "version"}
        assert (ai["mood"], ai["provider"], ai["version"]) == ("joyful", "rules", RULES_VERSION)
    assert posts.columns("ai_error", "process_attempts", "version") == [(None, 1, 3)] * 120
    assert all(posts.columns("settled_by"))
    batches = posts.admin.execute("select count(distinct xmin::text) from posts.posts").fetchone()
    assert batches
    assert batches[0] < 40
    assert posts.count("duly.outbox") == 120


FAILURES = {
    "refuse": ("AI_REFUSED", "rules"),
    "read half": ("IMAGE_UNREADABLE", "reader"),
    "misname": ("AI_FAILED", "rules"),
    "fall": ("AI_FAILED", "rules"),
    "mute": ("AI_FAILED", "rules"),
    "leave": ("AI_FAILED", "rules"),
    "cancel": ("AI_FAILED", "rules"),
    "wait": ("AI_TIMEOUT", "rules"),
    "give up in time": ("AI_TIMEOUT", "rules"),
    "make up a mood": ("AI_FAILED", "rules"),
    "say nothing": ("AI_FAILED", "rules"),
    "say NUL": ("AI_FAILED", "rules"),
    "say much": ("AI_FAILED", "rules"),
    "say a list": ("AI_FAILED", "rules"),
    "say no JSON": ("AI_FAILED", "rules"),
}


async def test_a_post_whose_reading_failed_is_released_with_an_error_code(posts: PostActions, dsn: str) -> None:
    """All in one batch, with neighbours that notice nothing of it."""
    well = [f"well {nth}" for nth in range(20)]
    create_due_posts(posts, [*FAILURES, *well])
    reader = Reader()
    await release_all(posts, dsn, PostWork(as_analyzer(reader), TUNING, analyzer_seconds=0.5))
    rows = {caption: (error, ai) for caption, error, ai in posts.columns("caption", "ai_error", "ai")}
    assert {caption: (rows[caption][0], rows[caption][1]["provider"]) for caption in FAILURES} == FAILURES
    assert rows["read half"][1]["reasoning"] == "the caption alone"
    assert all(rows[caption] == (None, CALM.document()) for caption in well)
    assert set(posts.columns("process_attempts")) == {1}
    assert len(reader.asked) == len(rows) == posts.count("duly.outbox")


async def test_a_worker_reads_at_most_as_many_posts_at_once_as_it_has_slots(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait"] * 23)
    reader = Reader()
    work = PostWork(as_analyzer(reader), replace(TUNING, slots=5))
    async with working(dsn, work) as worker:
        await posts.until(lambda: reader.readings == 5)
        await until_renewed(posts, worker)
        assert posts.columns("status").count("PROCESSING") == 5
        reader.may_end.set()
        await until_released(posts)
    assert (reader.most_at_once, len(reader.asked)) == (5, 23)
    posts.verify()


async def until_renewed(posts: PostActions, worker: Worker) -> None:
    """Wait for some heartbeats, and so for as many looks."""
    before = worker.control.work_loops[0].heartbeat.beats
    await posts.until(lambda: worker.control.work_loops[0].heartbeat.beats > before + 2)


async def test_the_lease_of_a_post_is_renewed_while_it_is_read(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait"])
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), TUNING)) as worker:
        await posts.until(lambda: reader.readings == 1)
        for _ in range(3):
            posts.advance_clock(20)
            await until_renewed(posts, worker)
        reader.may_end.set()
        await until_released(posts)
    assert posts.columns("process_attempts", "ai_error") == [(1, None)]
    posts.verify()


# Posts that end their workers -----------------------------------------------------------------------------------------


async def end_workers(posts: PostActions, times: int, limit: int = 100) -> list[Lease]:
    """Let workers that never settle claim posts this often."""
    leases: list[Lease] = []
    for _ in range(times):
        leases = await posts.claim(limit=limit)
        posts.advance_clock(LEASE + 1)
        assert await posts.sweep() == len(leases)
    return leases


async def test_a_post_is_released_unread_at_its_sixth_claim(posts: PostActions, dsn: str) -> None:
    (key,) = create_due_posts(posts, ["What a wonderful day!"])
    await end_workers(posts, MAX_ATTEMPTS)
    create_due_posts(posts, ["well"])
    reader = Reader()
    await release_all(posts, dsn, PostWork(as_analyzer(reader), TUNING))
    assert [caption for caption, _ in reader.asked] == ["well"]
    assert posts.columns("process_attempts", "ai_error") == [(MAX_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS"), (1, None)]
    (ai, _) = posts.columns("ai")
    assert (ai["mood"], ai["provider"]) == ("neutral", "rules")
    assert posts.path(key) == ["PENDING", *["PROCESSING", "PENDING"] * MAX_ATTEMPTS, "PROCESSING", "RELEASED"]


async def test_posts_with_several_starts_are_read_one_at_a_time_and_block_no_other(
    posts: PostActions, dsn: str
) -> None:
    """One of them kills its workers: it is found once it runs alone, and the others are read."""
    create_due_posts(posts, ["wait"] * 6)
    await end_workers(posts, 3)
    create_due_posts(posts, ["wait"] * 6)
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), TUNING)) as worker:
        await posts.until(lambda: reader.readings == 7)
        await until_renewed(posts, worker)
        await until_polled(posts, worker)
        assert reader.most_at_once == 7
        assert sorted(posts.columns("process_attempts")) == [1] * 6 + [3] * 5 + [4]
        reader.may_end.set()
        await until_released(posts)
    assert sorted(posts.columns("process_attempts")) == [1] * 6 + [4] * 6
    assert set(posts.columns("ai_error")) == {None}
    posts.verify()


# Going ----------------------------------------------------------------------------------------------------------------


async def test_a_stopping_worker_releases_unread_posts_and_their_starts(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait", "well", "wait"])
    reader = Reader()
    work = PostWork(as_analyzer(reader), TUNING)
    async with working(dsn, work, stop_seconds=0.5):
        await posts.until(lambda: posts.columns("status").count("RELEASED") == 1 and reader.readings == 2)
    assert reader.readings == 0
    waiting = posts.admin.execute(
        "select process_attempts, lease_expires_at < duly.clock() from posts.posts where caption = 'wait'"
    ).fetchall()
    assert waiting == [(0, True)] * 2
    reader.may_end.set()
    await release_all(posts, dsn, work)
    assert posts.columns("process_attempts", "ai_error") == [(1, None)] * 3
    assert posts.count("duly.outbox") == 3


# Time -----------------------------------------------------------------------------------------------------------------


async def test_no_post_is_released_early_when_the_clock_jumps(posts: PostActions, dsn: str) -> None:
    posts.create(*authors(5))
    async with working(dsn, PostWork(as_analyzer(Reader()), TUNING)) as worker:
        for seconds in (6 * HOURS - 60, -3 * HOURS, 2 * HOURS, -48 * HOURS, 48.9 * HOURS):
            posts.advance_clock(seconds)
            await until_polled(posts, worker)
            assert posts.columns("status", "version") == [("PENDING", 1)] * 5
        posts.advance_clock(0.2 * HOURS)
        await until_released(posts)
    early = "select count(*) from posts.posts where released_at < greatest(release_time, created_at + interval '6h')"
    assert posts.admin.execute(early).fetchone() == (0,)
    posts.verify()


# Plans ----------------------------------------------------------------------------------------------------------------

PARAMETER = re.compile(r"%\((\w+)\)[sb]")
ROWS = 20_000
STATEMENTS = {
    **{name: getattr(POST.statements, name) for name in POST.statements.statements},
    **{
        name: sql.SQL(cast("Any", repository.SQL.statements[name]))
        for name in ("write_notices", "find_post", "list_released", "list_by_author", "edit_caption")
    },
}
GIVEN = {
    "reader": ("text", "'author1'"),
    "owners": ("text[]", "array_fill('worker-1/token'::text, array[500])"),
    "ai": ("jsonb[]", "array_fill('{}'::jsonb, array[500])"),
    "ai_error": ("text[]", "array_fill('AI_FAILED'::text, array[500])"),
    "lease_seconds": ("float8", "60"),
    "owner": ("text", "'worker-1/token'"),
    "limit": ("bigint", "100"),
    "viewer": ("text", "'author7'"),
    "private_viewer": ("text", "'author7'"),
    "author": ("text", "'author7'"),
    "caption": ("text", "'another'"),
    "texts": ("jsonb", """'{"en": "out"}'"""),
    "before_at": ("timestamptz", "duly.clock()"),
    "before_id": ("uuid", f"'{UUID(int=7)}'"),
}
FILL = """
insert into duly.person (uid) select 'author' || n from generate_series(1, {authors}) as n;
insert into posts.posts (author_id, status, created_at, release_time, released_at, legacy)
select 'author' || 1 + n % {authors}, case n % 2 when 0 then 'PENDING' else 'RELEASED' end,
    duly.clock() - n * interval '1 minute', duly.clock() - n * interval '1 second',
    case n % 2 when 1 then duly.clock() end, '{{}}'
from generate_series(1, {rows}) as n;
analyze posts.posts; analyze duly.person;
"""


def explain(admin: Admin, statement: sql.Composable, keys: Sequence[UUID]) -> str:
    """The plan of a prepared statement, as a worker's connection has it."""
    text = statement.as_string(admin)
    names = list(dict.fromkeys(PARAMETER.findall(text)))
    numbered = PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", text).rstrip("; \n")
    array = "array[" + ", ".join(f"'{key}'" for key in keys) + "]::uuid[]"
    arrays = dict.fromkeys(("keys", "excluded_keys", "post_ids"), ("uuid[]", array))
    given = {**GIVEN, **arrays, "post_id": ("uuid", f"'{keys[0]}'"), "key": ("uuid", f"'{keys[0]}'")}
    kinds, values = (f"({', '.join(given[name][nth] for name in names)})" if names else "" for nth in (0, 1))
    admin.execute(f"prepare asked {kinds} as {numbered}".encode())
    lines = admin.execute(f"explain (costs off) execute asked {values}".encode()).fetchall()
    admin.execute("deallocate asked")
    return "\n".join(line for (line,) in lines)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_no_statement_scans_all_posts_whatever_the_statistics(
    mode: str, posts: PostActions, admin: Admin
) -> None:
    admin.execute(FILL.format(rows=ROWS, authors=2_000).encode())
    keys = [lease.key for lease in await posts.claim(limit=500)]
    admin.execute(f"set plan_cache_mode = {mode}".encode())
    for name, statement in STATEMENTS.items():
        plan = explain(admin, statement, keys)
        assert not re.search(r"Seq Scan on (posts|users)", plan), f"{name}:\n{plan}"
        assert "Join Filter" not in plan, f"{name} compares every row with every other:\n{plan}"
        if name == "list_released":
            assert "Sort" not in plan, f"{name} does not come in order:\n{plan}"


async def test_a_claim_and_a_release_of_posts_cause_no_sequential_scan(
    posts: PostActions, admin: Admin, dsn: str
) -> None:
    """Also when their plans were made on an empty table."""
    work = PostWork(as_analyzer(Reader()), TUNING)
    for nth in range(8):  # until plans are made for good
        posts.create_due(f"early{nth}")
        leases = await posts.claim(limit=10)
        async with posts.worker.transaction():
            await work.settle(posts.worker, [LeaseOutcome(lease, ReadResult(CALM)) for lease in leases])
        await posts.sweep()
    admin.execute(FILL.format(rows=ROWS, authors=2_000).encode())
    before = await scans(posts)
    leases = await posts.claim(limit=500)
    async with posts.worker.transaction():
        assert len(await work.settle(posts.worker, [LeaseOutcome(lease, ReadResult(CALM)) for lease in leases])) == 500
    await posts.sweep()
    assert await scans(posts) == before


async def scans(posts: PostActions) -> Any:
    """How often this worker's connection read all posts, with what it has not reported yet."""
    await posts.worker.execute("select pg_stat_force_next_flush()")
    asked = "select seq_scan from pg_stat_user_tables where relid = 'posts.posts'::regclass"
    cursor = await posts.worker.execute(asked)
    return await cursor.fetchone()
