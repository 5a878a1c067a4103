"""One author's requests from many sides at once, through two processes of the API, while the day turns."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from PIL import Image

from duly.apps.posts.model import permanent_name
from duly.testing import install_test_clock, move_clock
from duly.verify import check
from tests.support.api import SECONDS, key_for
from tests.support.locks import wait_until_blocked
from tests.support.processes import PYTHON, Program, plain_environment

Admin = psycopg.Connection[Any]
Body = dict[str, str]
INTENT = "/v1/createPostIntent"
ASKERS = 50
IMAGES = 6
SERVE = (*PYTHON, "-m", "duly", "serve", "--port", "0", "--json")


@dataclass(frozen=True)
class Deployment:
    """Two processes of the API over one database and one directory of images."""

    admin: Admin
    directory: Path
    programs: Sequence[Program]
    addresses: Sequence[str]

    def count(self, asked: str, *given: object) -> int:
        """Return the number that a query returns."""
        ((number,),) = self.admin.execute(asked.encode(), given).fetchall()
        return number

    def set_time(self, clock: str) -> None:
        """Move the database's clock to a time of its present UTC day."""
        at = "date_trunc('day', duly.clock(), 'UTC') + %s::interval"
        ((seconds,),) = self.admin.execute(
            f"select extract(epoch from ({at} - duly.clock()))::float8".encode(), [clock]
        )
        move_clock(self.admin, seconds)


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def deployment(database: str, tmp_path: Path) -> Generator[Deployment, None, None]:
    """A database without posts."""
    environment = plain_environment(DATABASE_URL=database, DULY_OBJECTS_DIR=str(tmp_path))
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(database, autocommit=True))
        install_test_clock(admin)
        programs = [stack.enter_context(Program(SERVE, environment=environment)) for _ in range(2)]
        addresses = [json.loads(program.line())["api"] for program in programs]
        yield Deployment(admin, tmp_path, programs, addresses)


async def client_for(deployment: Deployment, author: str) -> httpx2.AsyncClient:
    """A client with an API key and many connections."""
    scopes = ("posts:read", "posts:write")
    key = await asyncio.to_thread(key_for, deployment.admin.info.dsn, None, scopes, uid=author)
    limits = httpx2.Limits(max_connections=2 * ASKERS)
    headers = {"Authorization": f"Bearer {key.secret}"}
    return httpx2.AsyncClient(headers=headers, timeout=SECONDS, trust_env=False, limits=limits)


def photo() -> bytes:
    """A photograph."""
    file = BytesIO()
    Image.new("RGB", (30, 20), (250, 140, 60)).save(file, "JPEG")
    return file.getvalue()


async def upload(deployment: Deployment, many: httpx2.AsyncClient, images: int) -> list[str]:
    """So many images, brought to either process."""

    async def bring(nth: int) -> str:
        answer = await many.post(f"{deployment.addresses[nth % 2]}/v1/posts/images", content=photo())
        assert answer.status_code == 201, answer.text
        return answer.json()["imagePath"]

    return await asyncio.gather(*map(bring, range(images)))


def make_bodies(images: Sequence[str]) -> list[Body]:
    """Requests, every other one of them the same, the rest each with an id of its own and any of the images."""
    same = {"imagePath": images[0], "caption": "the same", "requestId": str(uuid4())}
    return [
        same
        if nth % 2
        else {"imagePath": images[nth // 2 % len(images)], "caption": str(nth), "requestId": str(uuid4())}
        for nth in range(ASKERS)
    ]


@dataclass(frozen=True)
class IntentResult:
    """A request and its answer."""

    body: Body
    answer: httpx2.Response

    @property
    def is_made(self) -> bool:
        return self.answer.status_code == 200

    @property
    def is_new(self) -> bool:
        return self.is_made and "duly-replayed" not in self.answer.headers

    @property
    def post(self) -> UUID:
        """The post that the answer names."""
        found = self.answer.json()
        return UUID((found["data"] if found["success"] else found["error"])["postId"])


async def post_intent(deployment: Deployment, many: httpx2.AsyncClient, nth: int, body: Body) -> IntentResult:
    """Send a request to one of the two processes."""
    return IntentResult(body, await many.post(deployment.addresses[nth // 2 % 2] + INTENT, json=body))


async def one_round(deployment: Deployment, author: str, moved_after: int | None) -> int:
    """Fifty at once before and after midnight; how many days were touched.

    The clock passes midnight by itself, or is moved over it when so many answers have come.
    """
    async with await client_for(deployment, author) as many:
        bodies = make_bodies(await upload(deployment, many, IMAGES))
        deployment.set_time("23:59:59.7" if moved_after is None else "23:59")
        waiting = [asyncio.create_task(post_intent(deployment, many, nth, body)) for nth, body in enumerate(bodies)]
        asked: list[IntentResult] = []
        for finished in asyncio.as_completed(waiting):
            asked.append(await finished)
            if len(asked) == moved_after:
                move_clock(deployment.admin, 60)
        if moved_after is None:
            move_clock(deployment.admin, 1)
        late = {"imagePath": bodies[0]["imagePath"], "caption": "the next day", "requestId": str(uuid4())}
        asked.append(await post_intent(deployment, many, 0, late))  # so that the next day is touched in any case
        posts = posts_by_day(deployment, author)
        is_as_promised(asked, posts)
        await is_answered_the_same_again(deployment, many, asked)
        for post in posts:
            answer = await many.get(f"{deployment.addresses[0]}/v1/posts/{post}/image")
            assert answer.status_code == 200
    assert posts_by_day(deployment, author) == posts
    return len(posts)


def posts_by_day(deployment: Deployment, author: str) -> dict[UUID, str]:
    """Return an author's posts and their days; each day has its lock."""
    found = deployment.admin.execute(
        "select p.id, p.daily_key from posts.posts as p join posts.daily_locks as l"
        " on l.post_id = p.id and l.id = p.daily_key || '_UTC' where p.author_id = %s",
        [author],
    ).fetchall()
    assert len(found) == deployment.count("select count(*) from posts.posts where author_id = %s", author)
    assert len(found) == deployment.count(
        "select count(*) from posts.daily_locks where starts_with(id, %s)", f"{author}_"
    )
    return dict(found)


def is_as_promised(asked: Sequence[IntentResult], posts: dict[UUID, str]) -> None:
    """Every day has one post, made by one request; every other request got its id or its answer again."""
    assert len(set(posts.values())) == len(posts)
    assert {each.answer.status_code for each in asked} == {200, 409}
    assert Counter(each.post for each in asked if each.is_new) == dict.fromkeys(posts, 1)
    assert {each.post for each in asked} <= posts.keys()
    made_by = {each.post: each.body["requestId"] for each in asked if each.is_new}
    for each in asked:
        if not each.is_made:
            assert each.answer.json()["error"]["code"] == "ALREADY_POSTED"
            assert made_by[each.post] != each.body["requestId"]  # a request's own success does not refuse it
    answers: dict[str, set[bytes]] = {}
    for each in asked:
        if each.is_made:
            answers.setdefault(each.body["requestId"], set()).add(each.answer.content)
    assert {len(same) for same in answers.values()} == {1}
    assert len(answers) == len(posts)


async def is_answered_the_same_again(
    deployment: Deployment, many: httpx2.AsyncClient, asked: Sequence[IntentResult]
) -> None:
    """A request that made a post gets the same answer from either process."""
    for each in asked:
        if each.is_new:
            for nth in (0, 2):
                again = await post_intent(deployment, many, nth, each.body)
                assert (again.answer.content, again.is_new) == (each.answer.content, False)


async def test_fifty_concurrent_intents_across_midnight_create_one_post_per_day(deployment: Deployment) -> None:
    moments = (1, None, 10, None, 25, None, 40, ASKERS)
    for nth, moved_after in enumerate(moments):
        days = await one_round(deployment, f"author-{nth}", moved_after)
        assert days == 2 or (moved_after is None and days == 1)  # a busy machine may begin after midnight
    assert check(deployment.admin, ("duly", "posts")) == []
    for program in deployment.programs:
        assert program.finish(signal.SIGTERM) in (0, -signal.SIGTERM), program.stderr_text()
    counts = dict(
        deployment.admin.execute("select outcome, sum(intents)::int from posts.intent_minutes group by outcome")
    )
    posts = deployment.count("select count(*) from posts.posts")
    assert counts.keys() == {"CREATED", "REPLAYED", "ALREADY_POSTED"}
    assert counts["CREATED"] == posts
    assert sum(counts.values()) == len(moments) * (ASKERS + 1) + 2 * posts
    stored = {str(file.relative_to(deployment.directory)) for file in (deployment.directory / "posts").rglob("*.jpg")}
    assert stored >= {name for (name,) in deployment.admin.execute("select image_url from posts.posts")}
    assert not [file for file in deployment.directory.rglob("*+*") if file.is_file()]  # no draft is left behind


async def test_a_request_whose_api_process_was_killed_is_completed_once_by_another(deployment: Deployment) -> None:
    async with await client_for(deployment, "anna") as many:
        deployment.set_time("12:00")
        (image,) = await upload(deployment, many, 1)
        body = {"imagePath": image, "caption": "My day", "requestId": str(uuid4())}
        with psycopg.connect(deployment.admin.info.dsn) as other:  # stands in the way until the process is gone
            lock = "posts.daily_key('anna', duly.clock()) || '_UTC'"
            other.execute(f"insert into posts.daily_locks (id, post_id) values ({lock}, %s)".encode(), [uuid4()])
            first = asyncio.create_task(post_intent(deployment, many, 0, body))
            await asyncio.to_thread(wait_until_blocked, deployment.admin.info.dsn)
            deployment.programs[0].kill()
            with pytest.raises(httpx2.TransportError):
                await first
            other.rollback()
        second, third = [await post_intent(deployment, many, 2, body) for _ in range(2)]
        assert (second.is_new, third.is_new) == (True, False)
        assert second.answer.content == third.answer.content
    assert list(posts_by_day(deployment, "anna")) == [second.post]
    assert (deployment.directory / permanent_name(image)).is_file()
    assert check(deployment.admin, ("duly", "posts")) == []
