"""The OpenAPI document is correct: no request causes an internal error, and every response is documented."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import strategies as st
from schemathesis.checks import load_all_checks

from duly.accounts import NewKey
from duly.rate_limit import RateLimiter
from duly.testing import TestDatabases
from tests.fast.http.test_openapi import DOCUMENT, TESTER, photo
from tests.support.api import api_on, client_for, key_for

TESTER.openapi.format("binary", st.just(photo()) | st.binary(max_size=100))
for kind in DOCUMENT["paths"]["/v1/posts/images"]["post"]["requestBody"]["content"]:
    TESTER.openapi.media_type(kind, st.just(photo()) | st.binary(max_size=100))
JOBS = 8
MANY = 1_000_000
NOWHERE = UUID(int=7)

load_all_checks()


@dataclass(frozen=True)
class Api:
    """An API, an administrator's key, and the ids of existing data."""

    address: str
    key: NewKey
    jobs: list[str]
    post: str  # anna's, which waits
    released: str  # and one that does not
    images: list[str]  # of bo, who has not posted yet
    session: str  # anna's, which takes images
    day: str  # of anna, which has a version
    schedule: int  # of anna
    run: int  # of anna, which is open
    token: str  # of cleo's calendar; no other key acts for cleo


@pytest.fixture(scope="module")
def api(databases: TestDatabases, worker_id: str) -> Generator[Api, None, None]:
    """Serve an API with jobs in several states, posts, sessions, days and schedules."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        key = key_for(dsn, "acme", ["admin"], uid="anna", telegram_id=42)
        query = "select (ledger.enqueue(org => %s, type => 'work')).id::text from generate_series(1, %s)"
        jobs = [key for (key,) in admin.execute(query, [key.key.org_id, JOBS])]
        held = (
            "status = 'running', starts = 1, lease_owner = 'w/1', lease_expires_at = duly.clock() + interval '1 hour'"
        )
        failed = "status = 'failed', lease_expires_at = null, last_error_code = 'OOPS', last_error_message = 'because'"
        for change, first in ((held, 2), (failed, 4), ("status = 'dead_letter', lease_owner = null", 4)):
            admin.execute(f"update ledger.job set {change} where id = any (%s::uuid[])".encode(), [jobs[first:]])
        key_for(dsn, None, ["posts:read"], uid="bo")
        with hurried(), api_on(dsn) as address, client_for(address, key.secret) as anna:
            image, *images = [
                anna.post("/v1/posts/images", content=photo(), headers={"Duly-User": uid}).json()["imagePath"]
                for uid in ("anna", "bo", "bo")
            ]
            body = {"imagePath": image, "caption": "My day", "requestId": str(uuid4())}
            post = anna.post("/v1/createPostIntent", json=body).json()["data"]["postId"]
            ((released,),) = admin.execute(
                "insert into posts.posts (author_id, status, created_at, legacy, image_url)"
                " select 'anna', 'RELEASED', '2020-01-01', '{}', image_url from posts.posts returning id::text"
            ).fetchall()
            session = anna.post("/v1/ingest/sessions").json()["id"]
            schedule = anna.post("/v1/schedules", json={"name": "Rent", "rule": "cron: 0 10 1 * *"}).json()["id"]
            run = anna.post(f"/v1/schedules/{schedule}/fire").json()["id"]
            with client_for(address, key_for(dsn, None, ["scheduler:write"], uid="cleo").secret) as cleo:
                token = cleo.post("/v1/calendar").json()["token"]
            yield Api(address, key, jobs, post, released, images, session, know_day(admin), schedule, run, token)


@contextmanager
def hurried() -> Generator[None, None, None]:
    """Raise the rate limit, which these tests would exceed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duly.http.app.RateLimiter", partial(RateLimiter, burst=MANY))
        yield


def know_day(admin: psycopg.Connection[Any]) -> str:
    """Create a day of anna's with a version."""
    ((session,),) = admin.execute(
        "insert into schedule_ingest.capture_session (user_id) values (42) returning id"
    ).fetchall()
    admin.execute(
        "update schedule_ingest.capture_session set state = 'processing', locked_by = 'w/1', locked_at = duly.clock()"
        " where id = %s",
        [session],
    )
    admin.execute(
        "insert into schedule_ingest.schedule_version"
        " (user_id, schedule_date, version, session_id, payload, payload_hash)"
        " values (42, '2026-02-10', 1, %s, '{}', 'x')",
        [session],
    )
    admin.execute(
        "insert into schedule_ingest.day_snapshot (user_id, schedule_date, snapshot_payload, source_session_id)"
        " values (42, '2026-02-10', '[]', %s)",
        [session],
    )
    return "2026-02-10"


def test_no_post_route_finds_an_unreleased_post_of_another_user(api: Api) -> None:
    paths = [path for path in DOCUMENT["paths"] if "{" in path]
    assert {part for path in paths for part in re.findall(r"\{(\w+)\}", path)} == {
        "job_id",
        "post_id",
        "session_id",
        "date",
        "version",
        "schedule_id",
        "run_id",
        "token",
    }
    probed = 0
    with client_for(api.address, api.key.secret) as anna, client_for(api.address, api.key.secret) as other:
        other.headers["Duly-User"] = "bo"
        before = anna.get(f"/v1/posts/{api.post}").json()
        for path in (path for path in paths if "{post_id}" in path):
            for verb in DOCUMENT["paths"][path]:
                probed += 1
                body = {"caption": "Mine!"} if verb == "patch" else None
                found = other.request(verb, path.format(post_id=api.post), json=body)
                nothing = other.request(verb, path.format(post_id=NOWHERE), json=body)
                assert found.status_code == nothing.status_code == 404, (verb, path)
                assert found.text == nothing.text.replace(str(NOWHERE), api.post)
        assert probed >= 3
        assert anna.get(f"/v1/posts/{api.post}").json() == before
