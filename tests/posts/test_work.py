"""Posts in a running worker: whatever an analyzer does, a post appears once, in time, and says how it was read."""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.kernel.lease import Lease, render, render_settle
from duly.kernel.work import Finished, Pace
from duly.objects import LARGEST_PHOTO_BYTES, Objects, clean_photo, open_objects
from duly.posts import POST, store
from duly.posts.model import MOST_ATTEMPTS, kept_name
from duly.posts.reading import Analyzer, Mood, NoReading, Reading
from duly.posts.rules import RULES_VERSION, RulesAnalyzer
from duly.posts.work import PostWork, Read
from duly.settings import Settings
from duly.worker.runtime import Worker
from tests.objects.pictures import gradient, written
from tests.posts.hands import HOURS, LEASE, Admin, Hands
from tests.support.proxy import Proxy

PACE = Pace(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=50)
QUIET = replace(PACE, poll_seconds=3600.0, sweep_seconds=3600.0, heartbeat_seconds=9.0)  # asks nothing by itself
SECONDS = 40.0
COMMIT = b"COMMIT\0"  # to its end: a transaction begins with READ COMMITTED
CALM = Reading(Mood.CALM, "silence", "because", "reader", "7")


@pytest.fixture
def dsn(admin: Admin) -> str:
    """Where workers connect, as themselves."""
    return make_conninfo(admin.info.dsn, user=Names().worker)


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    """An empty store of images."""
    return open_objects(Settings(DULY_OBJECTS_DIR=tmp_path / "objects"))  # type: ignore[call-arg]


@asynccontextmanager
async def working(dsn: str, work: PostWork, *, stop_seconds: float = 5) -> AsyncGenerator[Worker, None]:
    """A worker in this process, stopped politely at the end."""
    worker = Worker([work], Settings(DULY_STOP_SECONDS=stop_seconds), dsn=dsn)  # type: ignore[call-arg]
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.ask_to_stop()
        await running


async def until(hands: Hands, condition: Callable[[], bool]) -> None:
    """Wait for something in the database while the worker in this process goes on."""

    def wait() -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, hands.look("caption", "status", "process_attempts", "ai_error")
            hands.admin.execute("select pg_sleep(0.02)")

    await asyncio.to_thread(wait)


async def until_released(hands: Hands) -> None:
    """Wait until every post has appeared."""
    await until(hands, lambda: set(hands.look("status")) == {"RELEASED"})


async def release_all(hands: Hands, dsn: str, work: PostWork) -> None:
    """Have a worker release every post; no law is broken."""
    async with working(dsn, work):
        await until_released(hands)
    hands.verify()


def authors(several: int) -> list[str]:
    """So many people."""
    return [f"author{nth}" for nth in range(several)]


def put_due(hands: Hands, captions: Sequence[str]) -> list[UUID]:
    """A due post with each of these captions, by people who never posted before."""
    people = [f"author{hands.count('user.users')}.{nth}" for nth in range(len(captions))]
    keys = [hands.put(author, caption=caption)[0] for author, caption in zip(people, captions, strict=True)]
    hands.pass_time(6 * HOURS + 1)
    return keys


def notices(hands: Hands) -> list[tuple[Any, ...]]:
    """Every message to an author, by author."""
    asked = "select recipient, channel, kind, payload from duly.outbox order by recipient"
    return hands.admin.execute(asked).fetchall()


def figure(worker: Worker, name: str) -> float:
    """What a worker counted of posts."""
    found = re.search(rf'^{name}{{kind="posts"}} (\S+)$', worker.metrics.render().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


async def until_looked(hands: Hands, worker: Worker) -> None:
    """Wait until the worker has looked for posts that are due, twice, and for dead holders."""
    before = figure(worker, "duly_claim_seconds_count")
    await until(hands, lambda: figure(worker, "duly_claim_seconds_count") >= before + 3)


class Reader:
    """An analyzer that does what a caption says, and calls every other post calm."""

    name: str = "reader"

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes | None]] = []
        self.readings = 0  # under way
        self.most_at_once = 0
        self.may_end = asyncio.Event()

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """A reading, or not."""
        self.asked.append((caption, photo))
        self.readings += 1
        self.most_at_once = max(self.most_at_once, self.readings)
        try:
            return await WAYS.get(caption, Reader.say)(self)
        finally:
            self.readings -= 1

    async def say(self) -> Reading:
        return CALM

    async def wait(self) -> Reading:
        await self.may_end.wait()
        return CALM

    async def refuse(self) -> Reading:
        raise NoReading("AI_REFUSED", "it would rather not")

    async def read_half(self) -> Reading:
        raise NoReading("IMAGE_UNREADABLE", "no photo", replace(CALM, reasoning="the caption alone"))

    async def misname(self) -> Reading:
        raise NoReading("no code", "which is a mistake of the analyzer's")

    async def fall(self) -> Reading:
        raise ValueError("it fell")

    async def mute(self) -> Reading:
        raise Mute

    async def leave(self) -> Reading:
        raise SystemExit(1)

    async def cancel(self) -> Reading:
        raise asyncio.CancelledError

    async def give_up_in_time(self) -> Reading:
        raise TimeoutError("the model did not answer")

    async def make_up_a_mood(self) -> Reading:
        return replace(CALM, mood="groovy")

    async def say_nothing(self) -> Reading:
        return cast("Reading", None)

    async def say_nul(self) -> Reading:
        return cast("Reading", Unstorable({"mood": "\0"}))

    async def say_much(self) -> Reading:
        return cast("Reading", Unstorable({"mood": [str(uuid4()) for _ in range(5000)]}))

    async def say_a_list(self) -> Reading:
        return cast("Reading", Unstorable([]))

    async def say_no_json(self) -> Reading:
        return cast("Reading", Unstorable({"mood": object()}))


class Mute(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError


class Unstorable:
    """What an analyzer that checks nothing might return."""

    def __init__(self, found: object) -> None:
        self.found = found

    def document(self) -> object:
        return self.found


WAYS = {
    "wait": Reader.wait,
    "refuse": Reader.refuse,
    "read half": Reader.read_half,
    "misname": Reader.misname,
    "fall": Reader.fall,
    "mute": Reader.mute,
    "leave": Reader.leave,
    "cancel": Reader.cancel,
    "give up in time": Reader.give_up_in_time,
    "make up a mood": Reader.make_up_a_mood,
    "say nothing": Reader.say_nothing,
    "say NUL": Reader.say_nul,
    "say much": Reader.say_much,
    "say a list": Reader.say_a_list,
    "say no JSON": Reader.say_no_json,
}


def as_analyzer(reader: Reader) -> Analyzer:
    """A reader is an analyzer, which the type checker sees here."""
    return reader


# Releasing ------------------------------------------------------------------------------------------------------------


async def test_due_posts_are_released_in_batches_and_say_how_they_were_read(hands: Hands, dsn: str) -> None:
    put_due(hands, ["What a wonderful day, I love it!"] * 120)
    await release_all(hands, dsn, PostWork(RulesAnalyzer(), PACE))
    for ai in hands.look("ai"):
        assert set(ai) == {"mood", "music", "reasoning", "provider", "version"}
        assert (ai["mood"], ai["provider"], ai["version"]) == ("joyful", "rules", RULES_VERSION)
    assert hands.look("ai_error", "process_attempts", "version") == [(None, 1, 3)] * 120
    assert all(hands.look("settled_by"))
    batches = hands.admin.execute("select count(distinct xmin::text) from posts.posts").fetchone()
    assert batches
    assert batches[0] < 40
    assert hands.count("duly.outbox") == 120


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


async def test_every_failure_is_a_code_and_the_post_appears_all_the_same(hands: Hands, dsn: str) -> None:
    """All in one batch, with neighbours that notice nothing of it."""
    well = [f"well {nth}" for nth in range(20)]
    put_due(hands, [*FAILURES, *well])
    reader = Reader()
    await release_all(hands, dsn, PostWork(as_analyzer(reader), PACE, analyzer_seconds=0.5))
    rows = {caption: (error, ai) for caption, error, ai in hands.look("caption", "ai_error", "ai")}
    assert {caption: (rows[caption][0], rows[caption][1]["provider"]) for caption in FAILURES} == FAILURES
    assert rows["read half"][1]["reasoning"] == "the caption alone"
    assert all(rows[caption] == (None, CALM.document()) for caption in well)
    assert set(hands.look("process_attempts")) == {1}
    assert len(reader.asked) == len(rows) == hands.count("duly.outbox")


async def test_no_more_posts_are_read_at_once_than_there_are_slots(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait"] * 23)
    reader = Reader()
    work = PostWork(as_analyzer(reader), replace(PACE, slots=5))
    async with working(dsn, work) as worker:
        await until(hands, lambda: reader.readings == 5)
        await until_beaten(hands, worker)
        assert hands.look("status").count("PROCESSING") == 5
        reader.may_end.set()
        await until_released(hands)
    assert (reader.most_at_once, len(reader.asked)) == (5, 23)
    hands.verify()


async def until_beaten(hands: Hands, worker: Worker) -> None:
    """Wait for some heartbeats, and so for as many looks."""
    before = worker.control.lanes[0].keeper.beats
    await until(hands, lambda: worker.control.lanes[0].keeper.beats > before + 2)


async def test_a_post_that_is_read_for_longer_than_its_lease_is_kept(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait"])
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), PACE)) as worker:
        await until(hands, lambda: reader.readings == 1)
        for _ in range(3):
            hands.pass_time(20)
            await until_beaten(hands, worker)
        reader.may_end.set()
        await until_released(hands)
    assert hands.look("process_attempts", "ai_error") == [(1, None)]
    hands.verify()


# Images ---------------------------------------------------------------------------------------------------------------


def image_of(hands: Hands, key: UUID) -> str:
    """Where the image of a post should be."""
    row = hands.admin.execute("select image_url from posts.posts where id = %s", [key]).fetchone()
    assert row is not None
    return row[0]


async def test_the_analyzer_is_shown_the_image_and_what_is_wrong_with_it_is_a_code(
    hands: Hands, dsn: str, objects: Objects, tmp_path: Path
) -> None:
    captions = ["there", "missing", "unreadable", "unavailable", "too large"]
    keys = dict(zip(captions, put_due(hands, captions), strict=True))
    names = {caption: image_of(hands, key) for caption, key in keys.items()}
    await objects.put(names["there"], clean_photo(written(gradient())))
    await objects.put(names["unreadable"], b"no photo at all")
    await objects.put(names["too large"], b"")
    with (tmp_path / "objects" / names["too large"]).open("r+b") as file:
        file.truncate(LARGEST_PHOTO_BYTES + 1)
    looped = tmp_path / "objects" / names["unavailable"]
    looped.parent.mkdir(exist_ok=True)
    looped.symlink_to(looped)
    await release_all(hands, dsn, PostWork(RulesAnalyzer(), PACE, objects=objects))
    assert dict(hands.look("caption", "ai_error")) == {
        "there": None,
        "missing": "IMAGE_MISSING",
        "unreadable": "IMAGE_UNREADABLE",
        "unavailable": "STORE_UNAVAILABLE",
        "too large": "IMAGE_UNREADABLE",
    }
    reasons = {caption: ai["reasoning"] for caption, ai in hands.look("caption", "ai")}
    assert "The photo has brightness" in reasons.pop("there")
    assert "The photo could not be read." in reasons.pop("unreadable")
    assert all("There is no photo." in reason for reason in reasons.values())


async def test_a_caption_is_read_though_its_image_is_missing(hands: Hands, dsn: str, objects: Objects) -> None:
    put_due(hands, ["well", "refuse"])
    reader = Reader()
    await release_all(hands, dsn, PostWork(as_analyzer(reader), PACE, objects=objects))
    assert sorted(reader.asked) == [("refuse", None), ("well", None)]
    assert dict(hands.look("caption", "ai_error")) == {"well": "IMAGE_MISSING", "refuse": "AI_REFUSED"}
    assert [ai["provider"] for ai in hands.look("ai")] == ["reader", "rules"]


async def test_a_document_of_the_first_version_may_have_its_image_elsewhere_or_none(
    hands: Hands, dsn: str, objects: Objects
) -> None:
    hands.know("anna")
    for url in ("https://example.org/my day.jpg", None):
        hands.admin.execute(
            "insert into posts.posts (author_id, release_time, image_url, legacy)"
            " values ('anna', duly.clock(), %s, '{}')",
            [url],
        )
    await release_all(hands, dsn, PostWork(as_analyzer(Reader()), PACE, objects=objects))
    assert hands.look("ai_error") == ["IMAGE_MISSING", None]


# Telling authors ------------------------------------------------------------------------------------------------------


async def test_authors_are_told_once_in_their_language_by_telegram_where_they_are_known_there(
    hands: Hands, dsn: str
) -> None:
    told = {
        "anna": "Your post is out: everybody can see it now.",
        "bo": "Ditt inlägg är ute: alla kan se det nu.",
        "chen": "您的帖子已发布，大家现在都能看到。",  # noqa: RUF001
        "dieter": "Your post is out: everybody can see it now.",
    }
    hands.know(*told)
    for language, uid in (("sv", "bo"), ("zh", "chen"), ("de", "dieter")):
        hands.admin.execute('update "user".users set language = %s where uid = %s', [language, uid])
    hands.admin.execute("update \"user\".users set telegram_id = 42 where uid = 'bo'")
    keys = hands.put_due(*told)
    await release_all(hands, dsn, PostWork(as_analyzer(Reader()), PACE))
    released = dict(hands.look("author_id", "released_at"))
    assert notices(hands) == [
        (
            author,
            channel,
            "post.released",
            {
                "text": told[author],
                "postId": str(key),
                "releasedAt": released[author].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "mood": "calm",
            },
        )
        for author, channel, key in zip(told, ("console", "telegram", "console", "console"), keys, strict=True)
    ]


async def test_a_settle_whose_answer_was_lost_is_repeated_and_tells_authors_once(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait"] * 5)
    reader = Reader()
    with Proxy(dsn) as proxy:
        async with working(proxy.address, PostWork(as_analyzer(reader), QUIET)) as worker:
            await until(hands, lambda: reader.readings == 5)
            proxy.cut_after(COMMIT)
            reader.may_end.set()
            await until_released(hands)
            await until(hands, lambda: not worker.control.lanes[0].running)
            assert figure(worker, "duly_database_errors_total") > 0
            assert figure(worker, "duly_leases_lost_total") == 0
    assert len(notices(hands)) == 5
    assert set(hands.look("version", "ai_error")) == {(3, None)}
    hands.verify()


async def test_settling_twice_is_settling_once_and_a_lost_post_is_neither_written_nor_told(
    hands: Hands, dsn: str
) -> None:
    hands.put_due("anna", "bo")
    old = await hands.hold(most=2)
    work = PostWork(as_analyzer(Reader()), PACE)
    hands.pass_time(LEASE + 1)
    await hands.sweep()
    new = await hands.hold(most=1)
    both = [Finished(lease, Read(CALM)) for lease in old]
    mine = [Finished(lease, Read(CALM, "SECOND_TIME")) for lease in new]
    async with hands.worker.transaction():
        assert await work.settle(hands.worker, both) == frozenset()
    assert notices(hands) == []
    for _ in range(2):
        async with hands.worker.transaction():
            assert await work.settle(hands.worker, mine) == {new[0].key}
    async with hands.worker.transaction():
        assert await work.settle(hands.worker, both) == frozenset()
    assert sorted(hands.look("status")) == ["PENDING", "RELEASED"]
    assert hands.count("duly.outbox") == 1
    hands.verify()


# Posts that end their workers -----------------------------------------------------------------------------------------


async def end_workers(hands: Hands, times: int, most: int = 100) -> list[Lease]:
    """Have posts taken so often by workers that never come back."""
    leases: list[Lease] = []
    for _ in range(times):
        leases = await hands.hold(most=most)
        hands.pass_time(LEASE + 1)
        assert await hands.sweep() == len(leases)
    return leases


async def test_at_the_sixth_claim_a_post_appears_unread(hands: Hands, dsn: str) -> None:
    (key,) = put_due(hands, ["What a wonderful day!"])
    await end_workers(hands, MOST_ATTEMPTS)
    put_due(hands, ["well"])
    reader = Reader()
    await release_all(hands, dsn, PostWork(as_analyzer(reader), PACE))
    assert [caption for caption, _ in reader.asked] == ["well"]
    assert hands.look("process_attempts", "ai_error") == [(MOST_ATTEMPTS + 1, "TOO_MANY_ATTEMPTS"), (1, None)]
    (ai, _) = hands.look("ai")
    assert (ai["mood"], ai["provider"]) == ("neutral", "rules")
    assert hands.path(key) == ["PENDING", *["PROCESSING", "PENDING"] * MOST_ATTEMPTS, "PROCESSING", "RELEASED"]


async def test_posts_that_were_started_often_are_read_one_at_a_time_and_hold_nobody_up(hands: Hands, dsn: str) -> None:
    """One of them ends its workers; which one shows when it is alone, and the others are not unread for its sake."""
    put_due(hands, ["wait"] * 6)
    await end_workers(hands, 3)
    put_due(hands, ["wait"] * 6)
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), PACE)) as worker:
        await until(hands, lambda: reader.readings == 7)
        await until_beaten(hands, worker)
        await until_looked(hands, worker)
        assert reader.most_at_once == 7
        assert sorted(hands.look("process_attempts")) == [1] * 6 + [3] * 5 + [4]
        reader.may_end.set()
        await until_released(hands)
    assert sorted(hands.look("process_attempts")) == [1] * 6 + [4] * 6
    assert set(hands.look("ai_error")) == {None}
    hands.verify()


# Going ----------------------------------------------------------------------------------------------------------------


async def test_a_stop_hands_back_what_is_not_read_and_gives_its_start_back(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait", "well", "wait"])
    reader = Reader()
    work = PostWork(as_analyzer(reader), PACE)
    async with working(dsn, work, stop_seconds=0.5):
        await until(hands, lambda: hands.look("status").count("RELEASED") == 1 and reader.readings == 2)
    assert reader.readings == 0
    waiting = hands.admin.execute(
        "select process_attempts, lease_expires_at < duly.clock() from posts.posts where caption = 'wait'"
    ).fetchall()
    assert waiting == [(0, True)] * 2
    reader.may_end.set()
    await release_all(hands, dsn, work)
    assert hands.look("process_attempts", "ai_error") == [(1, None)] * 3
    assert hands.count("duly.outbox") == 3


# Tidying --------------------------------------------------------------------------------------------------------------


async def test_images_of_no_post_and_old_answers_are_removed(hands: Hands, dsn: str, objects: Objects) -> None:
    used, unused, fresh = (hands.upload(author) for author in ("anna", "bo", "cleo"))
    hands.ask("anna", upload=used)
    for name in (used, kept_name(used), unused, kept_name(unused)):
        await objects.put(name, b"image")
    hands.pass_time(31 * 24 * HOURS)
    fresh = hands.upload("dora")
    await objects.put(fresh, b"image")
    async with working(dsn, PostWork(as_analyzer(Reader()), PACE, objects=objects)):
        await until(hands, lambda: hands.count("posts.uploads") == 1 and hands.count("posts.idempotency_keys") == 0)
        await until_released(hands)
    there = [await objects.exists(name) for name in (used, kept_name(used), unused, kept_name(unused), fresh)]
    assert there == [False, True, False, False, True]
    hands.verify()


async def test_an_upload_whose_image_cannot_be_removed_is_kept_for_another_time(
    hands: Hands, dsn: str, objects: Objects, tmp_path: Path
) -> None:
    upload = hands.upload("anna")
    hands.pass_time(25 * HOURS)
    looped = tmp_path / "objects" / "temp"
    looped.symlink_to(looped)
    hands.put_due("bo")
    async with working(dsn, PostWork(as_analyzer(Reader()), PACE, objects=objects)) as worker:
        await until_released(hands)
        await until(hands, lambda: figure(worker, "duly_database_errors_total") > 0)
        assert hands.admin.execute("select count(*) from posts.uploads where name = %s", [upload]).fetchone() == (1,)


# Time -----------------------------------------------------------------------------------------------------------------


async def test_nothing_is_taken_early_whichever_way_the_clock_is_moved(hands: Hands, dsn: str) -> None:
    hands.put(*authors(5))
    async with working(dsn, PostWork(as_analyzer(Reader()), PACE)) as worker:
        for seconds in (6 * HOURS - 60, -3 * HOURS, 2 * HOURS, -48 * HOURS, 48.9 * HOURS):
            hands.pass_time(seconds)
            await until_looked(hands, worker)
            assert hands.look("status", "version") == [("PENDING", 1)] * 5
        hands.pass_time(0.2 * HOURS)
        await until_released(hands)
    early = "select count(*) from posts.posts where released_at < greatest(release_time, created_at + interval '6h')"
    assert hands.admin.execute(early).fetchone() == (0,)
    hands.verify()


async def test_a_clock_that_goes_back_while_a_post_is_read_makes_no_release_early(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait"] * 3)
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), PACE)):
        await until(hands, lambda: reader.readings == 3)
        hands.pass_time(-2 * HOURS)
        reader.may_end.set()
        await until_released(hands)
    for released, due in hands.look("released_at", "release_time"):
        assert timedelta(0) <= released - due < timedelta(minutes=1)
    hands.verify()


async def test_a_clock_that_leaps_ahead_costs_a_start_and_nothing_else(hands: Hands, dsn: str) -> None:
    put_due(hands, ["wait"] * 3)
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), QUIET)) as worker:
        await until(hands, lambda: reader.readings == 3)
        hands.pass_time(8 * HOURS)
        assert await hands.sweep() == 3
        reader.may_end.set()
        await until(hands, lambda: figure(worker, "duly_leases_lost_total") == 3)
    assert set(hands.look("status", "process_attempts", "ai")) == {("PENDING", 1, None)}
    assert notices(hands) == []
    await release_all(hands, dsn, PostWork(as_analyzer(reader), PACE))
    assert hands.look("process_attempts") == [2] * 3


# Plans ----------------------------------------------------------------------------------------------------------------

PLACE = re.compile(r"%\((\w+)\)[sb]")
ROWS = 20_000
AI = (("ai", "jsonb"), ("ai_error", "text"))
STATEMENTS = {
    **{
        name: render(POST, name)
        for name in ("claim", "find_due", "renew", "release", "sweep", "find_lapsed", "find_settled")
    },
    "settle": render_settle(POST, "RELEASED", AI),
    **{
        name: sql.SQL(cast("Any", store.SQL.statements[name]))
        for name in ("write_notices", "find_post", "list_released", "list_of_author", "edit_caption")
    },
}
GIVEN = {
    "owners": ("text[]", "array_fill('worker-1/token'::text, array[500])"),
    "column_ai": ("jsonb[]", "array_fill('{}'::jsonb, array[500])"),
    "column_ai_error": ("text[]", "array_fill('AI_FAILED'::text, array[500])"),
    "lease_seconds": ("float8", "60"),
    "owner": ("text", "'worker-1/token'"),
    "most": ("bigint", "100"),
    "viewer": ("text", "'author7'"),
    "author": ("text", "'author7'"),
    "caption": ("text", "'another'"),
    "texts": ("jsonb", """'{"en": "out"}'"""),
    "before_at": ("timestamptz", "duly.clock()"),
    "before_id": ("uuid", f"'{UUID(int=7)}'"),
}
FILL = """
insert into "user".users (uid) select 'author' || n from generate_series(1, {authors}) as n;
insert into posts.posts (author_id, status, created_at, release_time, released_at, legacy)
select 'author' || 1 + n % {authors}, case n % 2 when 0 then 'PENDING' else 'RELEASED' end,
    duly.clock() - n * interval '1 minute', duly.clock() - n * interval '1 second',
    case n % 2 when 1 then duly.clock() end, '{{}}'
from generate_series(1, {rows}) as n;
analyze posts.posts; analyze "user".users;
"""


def plan_of(admin: Admin, statement: sql.Composable, keys: Sequence[UUID]) -> str:
    """The plan of a prepared statement, as a worker's connection has it."""
    text = statement.as_string(admin)
    names = list(dict.fromkeys(PLACE.findall(text)))
    numbered = PLACE.sub(lambda place: f"${names.index(place[1]) + 1}", text).rstrip("; \n")
    array = "array[" + ", ".join(f"'{key}'" for key in keys) + "]::uuid[]"
    given = {**GIVEN, "keys": ("uuid[]", array), "besides": ("uuid[]", array), "key": ("uuid", f"'{keys[0]}'")}
    admin.execute(f"prepare asked ({', '.join(given[name][0] for name in names)}) as {numbered}".encode())
    values = ", ".join(given[name][1] for name in names)
    lines = admin.execute(f"explain (costs off) execute asked ({values})".encode()).fetchall()
    admin.execute("deallocate asked")
    return "\n".join(line for (line,) in lines)


@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_no_statement_reads_all_posts_whatever_statistics_say(mode: str, hands: Hands, admin: Admin) -> None:
    admin.execute(FILL.format(rows=ROWS, authors=2_000).encode())
    keys = [lease.key for lease in await hands.hold(most=500)]
    admin.execute(f"set plan_cache_mode = {mode}".encode())
    for name, statement in STATEMENTS.items():
        plan = plan_of(admin, statement, keys)
        assert not re.search(r"Seq Scan on (posts|users)", plan), f"{name}:\n{plan}"
        assert "Join Filter" not in plan, f"{name} compares every row with every other:\n{plan}"
        if name == "list_released":
            assert "Sort" not in plan, f"{name} does not come in order:\n{plan}"


async def test_a_claim_and_a_release_read_no_more_than_their_rows(hands: Hands, admin: Admin, dsn: str) -> None:
    """Also when their plans were made on an empty table."""
    work = PostWork(as_analyzer(Reader()), PACE)
    for nth in range(8):  # until plans are made for good
        hands.put_due(f"early{nth}")
        leases = await hands.hold(most=10)
        async with hands.worker.transaction():
            await work.settle(hands.worker, [Finished(lease, Read(CALM)) for lease in leases])
        await hands.sweep()
    admin.execute(FILL.format(rows=ROWS, authors=2_000).encode())
    before = await scans(hands)
    leases = await hands.hold(most=500)
    async with hands.worker.transaction():
        assert len(await work.settle(hands.worker, [Finished(lease, Read(CALM)) for lease in leases])) == 500
    await hands.sweep()
    assert await scans(hands) == before


async def scans(hands: Hands) -> Any:
    """How often this worker's connection read all posts, with what it has not reported yet."""
    await hands.worker.execute("select pg_stat_force_next_flush()")
    asked = "select seq_scan from pg_stat_user_tables where relid = 'posts.posts'::regclass"
    cursor = await hands.worker.execute(asked)
    return await cursor.fetchone()
