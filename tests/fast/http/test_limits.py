"""Limits per caller: bodies that are forbidden, too large, too slow or too many, and concurrent readiness checks."""

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest
from fastapi import Request
from psycopg import sql

from duly.configuration.engine import parse_address
from duly.http.auth import Tenant, jobs_writer
from duly.http.request_limits import SMALL_BODY_BYTES, GuardedRoute, ImageRoute
from duly.rate_limit import RateLimiter
from duly.testing import TestDatabases
from tests.support.api import SECONDS, client_for, key_for, served_on

NOWHERE = "00000000-0000-0000-0000-000000000007"
IMAGES = "/v1/posts/images"
JOBS = "/v1/jobs"
SESSION_IMAGES = f"/v1/ingest/sessions/{NOWHERE}/images"
SCHEDULES = "/v1/schedules"
LIMITED = [IMAGES, "/v1/createPostIntent", SESSION_IMAGES, "/v1/ingest/sessions", SCHEDULES]
WRITES = ("ledger:write", "posts:write", "ingest:write", "scheduler:write")
READS = ("ledger:read", "posts:read", "ingest:read", "scheduler:read")
MANY = 60
LARGE = SMALL_BODY_BYTES + 1


@dataclass(frozen=True)
class Api:
    """An API with two keys."""

    address: str
    writer: str
    reader: str


@contextmanager
def opened(database: str) -> Generator[Api, None, None]:
    """Serve an API where anna of acme has all scopes, and bo may read."""
    writer = key_for(database, "acme", WRITES, uid="anna", telegram_id=42).secret
    with served_on(database) as address:
        yield Api(address, writer, key_for(database, None, READS, uid="bo").secret)


@pytest.fixture
def api(database: str) -> Generator[Api, None, None]:
    """Return an API for this test."""
    with opened(database) as api:
        yield api


class Sender:
    """A raw HTTP client that can stop in the middle of a request."""

    def __init__(self, address: str) -> None:
        location = urlsplit(address)
        self.socket = socket.create_connection((location.hostname or "", location.port or 80), timeout=SECONDS)

    def begin(self, path: str, key: str, announced: int | None, kind: str = "application/json") -> None:
        """Send the head of a request; without an announced length it is chunked."""
        length = "Transfer-Encoding: chunked" if announced is None else f"Content-Length: {announced}"
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", f"Content-Type: {kind}"]
        self.socket.sendall("\r\n".join([*lines, length, "", ""]).encode())

    def send(self, data: bytes) -> None:
        """Send a part of the body."""
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, Any], str | None]:
        """Return status, body and Retry-After of the response."""
        with closing(HTTPResponse(self.socket)) as response:
            response.begin()
            return response.status, json.loads(response.read()), response.getheader("retry-after")


@contextmanager
def sender_to(api: Api) -> Generator[Sender, None, None]:
    """Connect to the API."""
    sender = Sender(api.address)
    with sender.socket:
        yield sender


def answer_before_the_body(api: Api, path: str, key: str, announced: int | None) -> tuple[int, str]:
    """Announce a body without sending it, and return status and code of the response."""
    with sender_to(api) as sender:
        sender.begin(path, key, announced)
        status, body, _ = sender.answer()
        return status, body.get("code") or body["error"]["code"]


@pytest.mark.parametrize("path", LIMITED)
def test_rate_limit_counts_each_request_once_and_refuses_before_the_body(
    path: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duly.http.app.RateLimiter", partial(RateLimiter, burst=3, per_second=0.0))
    with opened(database) as api, client_for(api.address, api.writer) as anna:
        answers = [anna.post(path, json={"unheard": "of"}).status_code for _ in range(3)]
        assert 429 not in answers
        assert answer_before_the_body(api, path, api.writer, LARGE) == (429, "RATE_LIMITED")


def test_the_access_rule_of_a_route_runs_once_per_request(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    check = jobs_writer.check

    async def counting_check(request: Request) -> Tenant:
        checked.append(request.method)
        return await check(request)

    monkeypatch.setattr(jobs_writer, "check", counting_check)
    with client_for(api.address, api.writer) as anna:
        assert anna.post(JOBS, json={"type": "a"}).status_code == 201
    assert checked == ["POST"]


def test_invalid_duly_user_header_is_refused_before_the_body(api: Api) -> None:
    with sender_to(api) as sender:
        sender.begin(IMAGES, f"{api.writer}\r\nDuly-User: !", LARGE)
        status, body, _ = sender.answer()
    assert (status, body["errors"][0]["location"]) == (422, "header.Duly-User")


@pytest.mark.parametrize("announced", [10, LARGE, None])
@pytest.mark.parametrize(("path", "kind"), [(JOBS, GuardedRoute), (IMAGES, ImageRoute), (SESSION_IMAGES, ImageRoute)])
def test_body_that_does_not_arrive_in_time_is_refused(
    path: str, kind: type[GuardedRoute], announced: int | None, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "max_seconds", 0.3)
    with sender_to(api) as sender:
        sender.begin(path, api.writer, announced)
        sender.send(b"1\r\n{\r\n" if announced is None else b"{")
        status, body, _ = sender.answer()
    assert (status, body["code"]) == (413, "TOO_LARGE")
    assert "within" in body["detail"]


# Readiness ------------------------------------------------------------------------------------------------------------


def test_concurrent_readiness_checks_use_one_database_connection(databases: TestDatabases, worker_id: str) -> None:
    with (
        databases.clone(worker_id) as dsn,
        served_on(dsn) as address,
        psycopg.connect(databases.dsn, autocommit=True) as admin,
    ):
        name = sql.Identifier(parse_address(dsn)["dbname"])
        admin.execute(sql.SQL("alter database {} connection limit 12").format(name))  # of which a pool has 8
        assert asyncio.run(statuses_of(f"{address}/readyz")) == {200: MANY}


async def statuses_of(address: str) -> Counter[int]:
    """Count the statuses of many concurrent requests."""
    limits = httpx2.Limits(max_connections=MANY)
    async with httpx2.AsyncClient(trust_env=False, timeout=SECONDS, limits=limits) as client:
        answers = await asyncio.gather(*(client.get(address) for _ in range(MANY)))
    return Counter(answer.status_code for answer in answers)


# Unknown fields -------------------------------------------------------------------------------------------------------


def unknown(count: int) -> dict[str, int]:
    """Return unknown fields."""
    return {f"{nth:x}": 0 for nth in range(100_000, 100_000 + count)}


def bodies_full_of_unknown_fields() -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield path, body and location of the error."""
    yield JOBS, {"type": "a", **unknown(1000)}, "body"
    yield JOBS, {"type": "a", "backoff": unknown(1000)}, "body.backoff"
    yield SCHEDULES, {"name": "a", "rule": "cron: 0 10 1 * *", "expense": unknown(1000)}, "body.expense"
    yield "/v1/ingest/sessions", unknown(1000), "body"


@pytest.mark.parametrize(
    ("path", "body", "location"), list(bodies_full_of_unknown_fields()), ids=["job", "backoff", "expense", "session"]
)
def test_many_unknown_fields_are_reported_as_one_error(
    path: str, body: dict[str, Any], location: str, api: Api
) -> None:
    with client_for(api.address, api.writer) as anna:
        problem = anna.post(path, json=body).json()
    assert (problem["status"], problem["code"]) == (422, "INVALID_ARGUMENT")
    assert [each["location"] for each in problem["errors"]] == [location]
    assert "100" in problem["detail"]  # so many
    assert "more)" not in problem["detail"]


@pytest.mark.parametrize("names", [["prioritty"], [f"field_{nth}" for nth in range(15)]])
def test_few_unknown_fields_are_reported_individually(names: Sequence[str], api: Api) -> None:
    with client_for(api.address, api.writer) as anna:
        errors = anna.post(JOBS, json={"type": "a", **dict.fromkeys(names, 1)}).json()["errors"]
    assert errors == [{"location": f"body.{name}", "message": "Extra inputs are not permitted"} for name in names]
