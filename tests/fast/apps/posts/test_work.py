"""Posts in a running worker: whatever an analyzer does, a post is released once, in time, with how it was read."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from duly.apps.posts.model import permanent_name
from duly.apps.posts.reading import Analyzer, Mood, Reading, ReadingFailed
from duly.apps.posts.rules import RulesAnalyzer
from duly.apps.posts.work import PostWork, ReadResult
from duly.db.rows import Connection
from duly.lease.work import LeaseOutcome, Tuning
from duly.settings import Settings
from duly.storage import MAX_PHOTO_BYTES, ObjectStore, clean_photo, open_object_store
from duly.worker.runner import Worker
from tests.support.actions import working
from tests.support.posts.actions import HOURS, LEASE, PostActions
from tests.support.proxy import Proxy
from tests.support.storage.pictures import gradient, written

TUNING = Tuning(lease_seconds=30, heartbeat_seconds=0.2, poll_seconds=0.1, sweep_seconds=0.2, slots=50)
RARELY_POLLING = replace(
    TUNING, poll_seconds=3600.0, sweep_seconds=3600.0, heartbeat_seconds=9.0
)  # asks nothing by itself
COMMIT = b"COMMIT\0"  # to its end: a transaction begins with READ COMMITTED
CALM = Reading(Mood.CALM, "silence", "because", "reader", "7")


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    """An empty store of images."""
    return open_object_store(Settings(DULY_OBJECTS_DIR=tmp_path / "objects"))  # type: ignore[call-arg]


async def until_released(posts: PostActions) -> None:
    """Wait until every post is released."""
    await posts.until(lambda: set(posts.columns("status")) == {"RELEASED"})


async def release_all(posts: PostActions, dsn: str, work: PostWork) -> None:
    """Have a worker release every post; every invariant holds."""
    async with working(dsn, work):
        await until_released(posts)
    posts.verify()


def create_due_posts(posts: PostActions, captions: Sequence[str]) -> list[UUID]:
    """A due post with each of these captions, by people who never posted before."""
    people = [f"author{posts.count('duly.person')}.{nth}" for nth in range(len(captions))]
    keys = [posts.create(author, caption=caption)[0] for author, caption in zip(people, captions, strict=True)]
    posts.advance_clock(6 * HOURS + 1)
    return keys


def notices(posts: PostActions) -> list[tuple[Any, ...]]:
    """Every message to an author, by author."""
    asked = "select recipient, channel, kind, payload from duly.outbox order by recipient"
    return posts.admin.execute(asked).fetchall()


def figure(worker: Worker, name: str) -> float:
    """Return a worker's metrics of posts."""
    found = re.search(rf'^{name}{{work_type="posts"}} (\S+)$', worker.metrics.render().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


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
            return await BEHAVIOURS.get(caption, Reader.say)(self)
        finally:
            self.readings -= 1

    async def say(self) -> Reading:
        return CALM

    async def wait(self) -> Reading:
        await self.may_end.wait()
        return CALM

    async def refuse(self) -> Reading:
        raise ReadingFailed("AI_REFUSED", "it would rather not")

    async def read_half(self) -> Reading:
        raise ReadingFailed("IMAGE_UNREADABLE", "no photo", replace(CALM, reasoning="the caption alone"))

    async def misname(self) -> Reading:
        raise ReadingFailed("no code", "which is a mistake of the analyzer's")

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
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError


class Unstorable:
    """What an analyzer that checks nothing might return."""

    def __init__(self, found: object) -> None:
        self.found = found

    def document(self) -> object:
        return self.found


BEHAVIOURS = {
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


class UnsweptPosts(PostWork):
    """Posts whose worker leaves sweeping to the test: its first sweep may come late, and take what the test expects."""

    async def sweep(self, connection: Connection, keys: Sequence[Any] | None = None) -> int:  # noqa: ARG002
        return 0


# Images ---------------------------------------------------------------------------------------------------------------


def image_of(posts: PostActions, key: UUID) -> str:
    """Return the object name of a post's image."""
    row = posts.admin.execute("select image_url from posts.posts where id = %s", [key]).fetchone()
    assert row is not None
    return row[0]


async def test_analyzer_gets_the_image_and_an_image_error_is_stored_as_a_code(
    posts: PostActions, dsn: str, objects: ObjectStore, tmp_path: Path
) -> None:
    captions = ["there", "missing", "unreadable", "unavailable", "too large"]
    keys = dict(zip(captions, create_due_posts(posts, captions), strict=True))
    names = {caption: image_of(posts, key) for caption, key in keys.items()}
    await objects.put(names["there"], clean_photo(written(gradient())))
    await objects.put(names["unreadable"], b"no photo at all")
    await objects.put(names["too large"], b"")
    with (tmp_path / "objects" / names["too large"]).open("r+b") as file:
        file.truncate(MAX_PHOTO_BYTES + 1)
    looped = tmp_path / "objects" / names["unavailable"]
    looped.parent.mkdir(exist_ok=True)
    looped.symlink_to(looped)
    await release_all(posts, dsn, PostWork(RulesAnalyzer(), TUNING, objects=objects))
    assert dict(posts.columns("caption", "ai_error")) == {
        "there": None,
        "missing": "IMAGE_MISSING",
        "unreadable": "IMAGE_UNREADABLE",
        "unavailable": "STORE_UNAVAILABLE",
        "too large": "IMAGE_UNREADABLE",
    }
    reasons = {caption: ai["reasoning"] for caption, ai in posts.columns("caption", "ai")}
    assert "The photo has brightness" in reasons.pop("there")
    assert "The photo could not be read." in reasons.pop("unreadable")
    assert all("There is no photo." in reason for reason in reasons.values())


async def test_caption_is_read_although_its_image_is_missing(
    posts: PostActions, dsn: str, objects: ObjectStore
) -> None:
    create_due_posts(posts, ["well", "refuse"])
    reader = Reader()
    await release_all(posts, dsn, PostWork(as_analyzer(reader), TUNING, objects=objects))
    assert sorted(reader.asked) == [("refuse", None), ("well", None)]
    assert dict(posts.columns("caption", "ai_error")) == {"well": "IMAGE_MISSING", "refuse": "AI_REFUSED"}
    assert [ai["provider"] for ai in posts.columns("ai")] == ["reader", "rules"]


async def test_imported_document_may_have_a_remote_image_or_none(
    posts: PostActions, dsn: str, objects: ObjectStore
) -> None:
    posts.add_user("anna")
    for url in ("https://example.org/my day.jpg", None):
        posts.admin.execute(
            "insert into posts.posts (author_id, release_time, image_url, legacy)"
            " values ('anna', duly.clock(), %s, '{}')",
            [url],
        )
    await release_all(posts, dsn, PostWork(as_analyzer(Reader()), TUNING, objects=objects))
    assert posts.columns("ai_error") == ["IMAGE_MISSING", None]


# Telling authors ------------------------------------------------------------------------------------------------------


async def test_authors_are_notified_once_in_their_language_by_telegram_if_linked(posts: PostActions, dsn: str) -> None:
    expected_texts = {
        "anna": "Your post is out: everyone can see it now.",
        "bo": "Ditt inlägg är ute: alla kan se det nu.",
        "chen": "您的帖子已发布，大家现在都能看到。",  # noqa: RUF001
        "dieter": "Your post is out: everyone can see it now.",
    }
    for uid in expected_texts:
        posts.add_user(uid)
    for language, uid in (("sv", "bo"), ("zh", "chen"), ("de", "dieter")):
        posts.admin.execute("update duly.person set language = %s where uid = %s", [language, uid])
    posts.admin.execute("update duly.person set telegram_id = 42 where uid = 'bo'")
    keys = posts.create_due(*expected_texts)
    await release_all(posts, dsn, PostWork(as_analyzer(Reader()), TUNING))
    released = dict(posts.columns("author_id", "released_at"))
    assert notices(posts) == [
        (
            author,
            channel,
            "post.released",
            {
                "text": expected_texts[author],
                "postId": str(key),
                "releasedAt": released[author].strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "mood": "calm",
            },
        )
        for author, channel, key in zip(
            expected_texts, ("console", "telegram", "console", "console"), keys, strict=True
        )
    ]


async def test_settle_repeated_after_a_lost_reply_notifies_authors_once(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait"] * 5)
    reader = Reader()
    with Proxy(dsn) as proxy:
        async with working(proxy.address, PostWork(as_analyzer(reader), RARELY_POLLING)) as worker:
            await posts.until(lambda: reader.readings == 5)
            proxy.cut_after(COMMIT)
            reader.may_end.set()
            await until_released(posts)
            await posts.until(lambda: not worker.control.work_loops[0].held.rows)
            assert figure(worker, "duly_database_errors_total") > 0
            assert figure(worker, "duly_leases_lost_total") == 0
    assert len(notices(posts)) == 5
    assert set(posts.columns("version", "ai_error")) == {(3, None)}
    posts.verify()


async def test_settle_is_idempotent_and_ignores_posts_with_a_lost_lease(posts: PostActions, dsn: str) -> None:
    posts.create_due("anna", "bo")
    old = await posts.claim(limit=2)
    work = PostWork(as_analyzer(Reader()), TUNING)
    posts.advance_clock(LEASE + 1)
    await posts.sweep()
    new = await posts.claim(limit=1)
    both = [LeaseOutcome(lease, ReadResult(CALM)) for lease in old]
    mine = [LeaseOutcome(lease, ReadResult(CALM, "SECOND_TIME")) for lease in new]
    async with posts.worker.transaction():
        assert await work.settle(posts.worker, both) == frozenset()
    assert notices(posts) == []
    for _ in range(2):
        async with posts.worker.transaction():
            assert await work.settle(posts.worker, mine) == {new[0].key}
    async with posts.worker.transaction():
        assert await work.settle(posts.worker, both) == frozenset()
    assert sorted(posts.columns("status")) == ["PENDING", "RELEASED"]
    assert posts.count("duly.outbox") == 1
    posts.verify()


# Tidying --------------------------------------------------------------------------------------------------------------


async def test_unused_images_and_old_idempotency_records_are_purged(
    posts: PostActions, dsn: str, objects: ObjectStore
) -> None:
    used, unused, fresh = (posts.upload(author) for author in ("anna", "bo", "cleo"))
    posts.create_intent("anna", upload=used)
    for name in (used, permanent_name(used), unused, permanent_name(unused)):
        await objects.put(name, b"image")
    posts.advance_clock(31 * 24 * HOURS)
    fresh = posts.upload("dora")
    await objects.put(fresh, b"image")
    async with working(dsn, PostWork(as_analyzer(Reader()), TUNING, objects=objects)):
        await posts.until(lambda: posts.count("posts.uploads") == 1 and posts.count("posts.idempotency_keys") == 0)
        await until_released(posts)
    there = [await objects.exists(name) for name in (used, permanent_name(used), unused, permanent_name(unused), fresh)]
    assert there == [False, True, False, False, True]
    posts.verify()


async def test_upload_whose_image_cannot_be_removed_is_kept_for_a_retry(
    posts: PostActions, dsn: str, objects: ObjectStore, tmp_path: Path
) -> None:
    upload = posts.upload("anna")
    posts.advance_clock(25 * HOURS)
    looped = tmp_path / "objects" / "temp"
    looped.symlink_to(looped)
    posts.create_due("bo")
    async with working(dsn, PostWork(as_analyzer(Reader()), TUNING, objects=objects)) as worker:
        await until_released(posts)
        await posts.until(lambda: figure(worker, "duly_database_errors_total") > 0)
        assert posts.admin.execute("select count(*) from posts.uploads where name = %s", [upload]).fetchone() == (1,)


async def test_clock_set_back_during_processing_causes_no_early_release(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait"] * 3)
    reader = Reader()
    async with working(dsn, PostWork(as_analyzer(reader), TUNING)):
        await posts.until(lambda: reader.readings == 3)
        posts.advance_clock(-2 * HOURS)
        reader.may_end.set()
        await until_released(posts)
    for released, due in posts.columns("released_at", "release_time"):
        assert timedelta(0) <= released - due < timedelta(minutes=1)
    posts.verify()


async def test_clock_set_ahead_during_processing_costs_one_start(posts: PostActions, dsn: str) -> None:
    create_due_posts(posts, ["wait"] * 3)
    reader = Reader()
    async with working(dsn, UnsweptPosts(as_analyzer(reader), RARELY_POLLING)) as worker:
        await posts.until(lambda: reader.readings == 3)
        posts.advance_clock(8 * HOURS)
        assert await posts.sweep() == 3
        reader.may_end.set()
        await posts.until(lambda: figure(worker, "duly_leases_lost_total") == 3)
    assert set(posts.columns("status", "process_attempts", "ai")) == {("PENDING", 1, None)}
    assert notices(posts) == []
    await release_all(posts, dsn, PostWork(as_analyzer(reader), TUNING))
    assert posts.columns("process_attempts") == [2] * 3
