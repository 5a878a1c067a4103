"""Jobs over HTTP, with the role of the API: every route and every error."""

import asyncio
import json
from collections import Counter
from contextlib import closing
from http.client import HTTPConnection

import httpx2
import psycopg

from duly.configuration.engine import parse_address
from duly.db.admin import drop_database
from duly.http.problems import MEDIA_TYPE
from duly.http.request_limits import MAX_BODY_BYTES
from duly.testing import TestDatabases
from tests.fast.http.test_jobs import admin, api, create_job, database, jobs, problem_of, shared_client
from tests.support.api import SECONDS, api_on, client_for

__all__ = ["admin", "api", "database", "jobs", "shared_client"]


async def test_a_hundred_requests_at_once_with_one_key_create_one_job(api: httpx2.Client) -> None:
    limits = httpx2.Limits(max_connections=100)
    async with httpx2.AsyncClient(base_url=api.base_url, timeout=SECONDS, trust_env=False, limits=limits) as many:
        body = {"type": "work", "key": "one"}
        answers = await asyncio.gather(*(many.post("/v1/jobs", json=body) for _ in range(100)))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 200: 99}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(api.get("/v1/jobs").json()["items"]) == 1


def test_an_unreachable_database_answers_503_with_retry_after(databases: TestDatabases, worker_id: str) -> None:
    with databases.clone(worker_id) as dsn, api_on(dsn) as address, client_for(address) as api:
        job = create_job(api)
        with psycopg.connect(databases.dsn, autocommit=True) as admin:
            drop_database(admin, parse_address(dsn)["dbname"])
        answer = api.get(f"/v1/jobs/{job['id']}")
        problem_of(answer, 503, "UNAVAILABLE")
        assert int(answer.headers["retry-after"]) > 0
        assert api.get("/healthz").status_code == 200


def test_a_declared_length_over_the_limit_is_refused_before_the_body_is_read(shared_client: httpx2.Client) -> None:
    connection = HTTPConnection(shared_client.base_url.host, shared_client.base_url.port or 80, timeout=SECONDS)
    with closing(connection):
        connection.putrequest("POST", "/v1/jobs")
        connection.putheader("Content-Length", str(MAX_BODY_BYTES + 1))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (413, MEDIA_TYPE)
        assert str(MAX_BODY_BYTES) in json.loads(answer.read())["detail"]
