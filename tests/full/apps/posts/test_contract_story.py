"""The posts contract from INIT to RELEASED, section by section, over HTTP."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Generator
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from PIL import Image
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from duly.apps.posts.legacy import import_legacy
from duly.apps.posts.rules import RulesAnalyzer
from duly.apps.posts.states import POST
from duly.apps.posts.work import PostWork
from duly.db.migrations import Names
from duly.db.pool import Pool
from duly.lease.operations import claim_rows, sweep_rows
from duly.lease.work import Tuning
from duly.settings import load_settings
from duly.storage import ObjectStore
from duly.testing import install_test_clock, move_clock
from duly.verify import check
from duly.worker.runner import Worker
from tests.support.api import api_of, as_owner, client_for, key_for, temporary_object_store

HOUR = 3600.0
Answer = TypeVar("Answer")
SCOPES = ("posts:read", "posts:write")


class Story:
    """A running system: a database, an object store, the API, and Anna's key."""

    def __init__(
        self, admin: psycopg.Connection[Any], objects: ObjectStore, anna: httpx2.Client, bo: httpx2.Client
    ) -> None:
        self.admin = admin
        self.objects = objects
        self.anna = anna
        self.bo = bo

    def upload(self, client: httpx2.Client, color: tuple[int, int, int] = (250, 150, 60)) -> str:
        """A photograph of one colour, uploaded by a person."""
        photo = io.BytesIO()
        Image.new("RGB", (320, 240), color).save(photo, "JPEG")
        answer = client.post("/v1/posts/images", content=photo.getvalue(), headers={"Content-Type": "image/jpeg"})
        assert answer.status_code == 201
        return answer.json()["imagePath"]

    def work(self) -> int:
        """Run one cycle of the release worker; return how many posts it claimed."""

        async def once() -> int:
            work = PostWork(RulesAnalyzer(), Tuning(), objects=self.objects)
            dsn = make_conninfo(self.admin.info.dsn, user=Names().worker)
            return await Worker([work], load_settings(), dsn=dsn).run(once=True)

        return asyncio.run(once())

    def as_worker(self, act: Callable[[AsyncConnection[Any]], Awaitable[Answer]]) -> Answer:
        """Do something with a worker's rights."""

        async def run() -> Answer:
            dsn = make_conninfo(self.admin.info.dsn, user=Names().worker)
            async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
                return await act(connection)

        return asyncio.run(run())

    def document(self, post: str) -> dict[str, Any]:
        """A post as the contract writes it."""
        row = self.admin.execute("select document from posts.documents where id = %s", [post]).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture
def story(database: str) -> Generator[Story, None, None]:
    """The running system, with two people."""
    with psycopg.connect(database, autocommit=True) as admin, temporary_object_store() as objects:
        install_test_clock(admin)
        keys = [key_for(database, None, SCOPES, uid=uid).secret for uid in ("anna", "bo")]
        with (
            api_of(database, objects) as address,
            client_for(address, keys[0]) as anna,
            client_for(address, keys[1]) as bo,
        ):
            yield Story(admin, objects, anna, bo)


def test_the_contract_from_init_to_released(story: Story) -> None:
    anna, bo, admin = story.anna, story.bo, story.admin

    # 2.1 createPostIntent: the request and the response, to the letter.
    request = {"imagePath": story.upload(anna), "caption": "My day", "requestId": str(uuid4())}
    answer = anna.post("/v1/createPostIntent", json=request)
    assert answer.status_code == 200
    assert set(answer.json()) == {"success", "data"}
    data = answer.json()["data"]
    assert (answer.json()["success"], set(data), data["status"]) == (
        True,
        {"postId", "status", "releaseTime"},
        "PENDING",
    )
    post = data["postId"]

    # 1.2 The document: who owns which field, and what it holds.
    document = story.document(post)
    created, due = datetime.fromisoformat(document["createdAt"]), datetime.fromisoformat(document["releaseTime"])
    assert due == created + timedelta(hours=6) == datetime.fromisoformat(data["releaseTime"])
    assert document["authorId"] == "anna"
    assert document["requestId"] == request["requestId"]
    assert (document["version"], document["processAttempts"]) == (1, 0)
    assert document["dailyKey"] == f"anna_{created:%Y%m%d}"
    assert not {"leaseOwner", "leaseExpiresAt", "ai", "aiError"} & set(document)

    # 1.3 The lock of the day.
    locks = admin.execute("select id, post_id from posts.daily_locks").fetchall()
    assert locks == [(f"{document['dailyKey']}_UTC", UUID(post))]

    # 2.1 The errors: the day is taken, the argument is bad; and a retry of one's own success is none.
    conflict = anna.post("/v1/createPostIntent", json=request | {"requestId": str(uuid4())})
    assert conflict.status_code == 409
    assert (conflict.json()["error"]["code"], conflict.json()["error"]["postId"]) == ("ALREADY_POSTED", post)
    bad = anna.post("/v1/createPostIntent", json=request | {"requestId": "not a uuid"})
    assert (bad.status_code, bad.json()["error"]["code"]) == (400, "INVALID_ARGUMENT")
    assert anna.post("/v1/createPostIntent", json=request).json() == answer.json()

    # 1.2 The caption is the client's until PROCESSING; the post is its author's alone until it is released.
    assert anna.patch(f"/v1/posts/{post}", json={"caption": "What a wonderful day!"}).json()["version"] == 2
    assert bo.get(f"/v1/posts/{post}").status_code == 404
    assert bo.get("/v1/posts").json()["items"] == []

    # 1.4 PENDING -> PROCESSING only when now >= releaseTime.
    assert story.work() == 0
    move_clock(admin, 6 * HOUR - 60)
    assert story.work() == 0
    move_clock(admin, 61)

    # 1.4 PROCESSING -> PENDING by repair, when now > leaseExpiresAt: a worker took it, and was never heard of again.
    (lease,) = story.as_worker(lambda connection: claim_rows(connection, POST, "gone", lease_seconds=60))
    assert story.document(post)["leaseOwner"] == lease.owner
    assert anna.patch(f"/v1/posts/{post}", json={"caption": "too late"}).status_code == 409
    assert story.as_worker(lambda connection: sweep_rows(connection, POST)) == []
    move_clock(admin, 61)
    assert len(story.as_worker(lambda connection: sweep_rows(connection, POST))) == 1
    repaired = story.document(post)
    assert (repaired["status"], repaired["processAttempts"], "leaseOwner" in repaired) == ("PENDING", 1, False)

    # 1.4 PROCESSING -> RELEASED, with the reading, and a notice to the author, once.
    assert story.work() == 1
    released = story.document(post)
    assert (released["status"], released["caption"]) == ("RELEASED", "What a wonderful day!")
    assert {"mood", "music", "reasoning"} <= set(released["ai"])
    assert (released["ai"]["mood"], released["ai"]["provider"], "aiError" in released) == ("joyful", "rules", False)
    assert released["version"] > repaired["version"]
    assert bo.get(f"/v1/posts/{post}").json()["ai"] == released["ai"]
    assert bo.get(f"/v1/posts/{post}/image").headers["content-type"] == "image/jpeg"
    assert admin.execute("select recipient, kind from duly.outbox").fetchall() == [("anna", "post.released")]
    assert story.work() == 0

    # 4. The promises, as they stand.
    promises = {each["name"]: each for each in anna.get("/v1/slo").json()}
    assert all(each["is_met"] for each in promises.values())
    assert (promises["lag"]["events"], promises["stuck"]["bad"]) == (1, 0)
    assert 61 <= promises["lag"]["measured"] < 120

    assert check(admin, ("duly", "posts")) == []


def test_documents_of_the_first_contract_version_are_imported_and_read_as_v2(story: Story) -> None:
    """Section 3: what was there before is read as though it had always been v2."""
    lines = [
        b'{"id": "old", "userId": "anna", "timestamp": "2024-01-01T08:00:00Z", "content": "the first"}',
        b'{"id": "both", "userId": "x", "authorId": "bo", "timestamp": 1, "createdAt": "2024-01-02T08:00:00Z"}',
    ]

    async def run(pool: Pool) -> Any:
        return await import_legacy(pool, lines)

    done = as_owner(story.admin.info.dsn, run)
    assert (done.added, done.bad) == (2, 0)
    feed = story.anna.get("/v1/posts").json()["items"]
    assert [(each["authorId"], each["status"], each["createdAt"][:10]) for each in feed] == [
        ("bo", "RELEASED", "2024-01-02"),
        ("anna", "RELEASED", "2024-01-01"),
    ]
    assert [each["caption"] for each in story.bo.get("/v1/posts?author=anna").json()["items"]] == ["the first"]
    assert check(story.admin, ("duly", "posts")) == []
