"""Authentication: keys, scopes, orgs, and local requests, which need no key until the first one is created."""

import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import ExitStack
from typing import Any
from uuid import UUID

import httpx2
import pytest
from psycopg.conninfo import make_conninfo

from duly.accounts import service
from duly.accounts.model import new_secret
from duly.db.migrations import Names
from duly.http.app import build_app
from duly.http.auth import is_loopback
from duly.jobs.model import DEFAULT_ORG
from duly.settings import Settings
from duly.testing import TestDatabases
from tests.support.api import ALL, api_on, as_owner, client_for, key_for, temporary_object_store

NOWHERE = UUID(int=7)
JOB = {"type": "work"}


@pytest.fixture
def api(database: str) -> Generator[httpx2.Client, None, None]:
    """Return a client without a key."""
    with api_on(database) as address, client_for(address) as client:
        yield client


@pytest.fixture(scope="module")
def shared_client(databases: TestDatabases, worker_id: str) -> Generator[httpx2.Client, None, None]:
    """Return a client without a key, shared by tests that change nothing."""
    with databases.clone(worker_id) as dsn, api_on(dsn) as address, client_for(address) as client:
        yield client


def is_refused(answer: httpx2.Response, status: int, code: str) -> str:
    """Check for a problem response, and return its detail."""
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), answer.text
    assert ("www-authenticate" in answer.headers) == (status == 401)
    return problem["detail"]


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


# Without a key --------------------------------------------------------------------------------------------------------


def test_without_keys_a_loopback_request_acts_for_the_default_org(api: httpx2.Client) -> None:
    job = api.post("/v1/jobs", json=JOB).json()
    assert (job["org_id"], job["requested_by"]) == (str(DEFAULT_ORG), "loopback")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost"},
        {"Host": "LOCALHOST:8420"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.255.0.9"},
        {"Host": "[::1]:8420"},
        {"Host": "localhost:8420", "Origin": "http://localhost:8420"},
    ],
)
def test_loopback_request_may_use_any_loopback_host_name(
    headers: Mapping[str, str], shared_client: httpx2.Client
) -> None:
    assert shared_client.get("/v1/jobs", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:8420"},
        {"Host": "localhost.evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "evil@127.0.0.1.evil.example"},
        {"Host": "192.0.2.1"},
        {"Host": "[::]"},
        {"Host": "0.0.0.0"},
        {"Host": "0x7f000001"},
        {"Host": "["},
        {"Host": ""},
        {"Host": "localhost:8420", "Origin": "http://evil.example"},
        {"Host": "localhost:8420", "Origin": "http://localhost:3000"},
        {"Host": "localhost:8420", "Origin": "null"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1"},
        {"Via": "1.1 somewhere"},
        {"X-Real-IP": "127.0.0.1"},
    ],
)
def test_loopback_request_with_a_foreign_host_or_proxy_header_needs_a_key(
    headers: Mapping[str, str], shared_client: httpx2.Client
) -> None:
    assert "duly keys create" in is_refused(shared_client.get("/v1/jobs", headers=headers), 401, "UNAUTHORIZED")


@pytest.fixture
async def client_from_address(
    database: str, request: pytest.FixtureRequest
) -> AsyncGenerator[httpx2.AsyncClient, None]:
    """Return a client with a foreign address, which calls the application by ASGI."""
    with temporary_object_store() as objects:
        app = build_app(Settings(), make_conninfo(database, user=Names().api), objects)
    async with app.router.lifespan_context(app) as state:
        assert state

        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        transport = httpx2.ASGITransport(with_state, client=(request.param, 50_000))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8420") as client:
            yield client


@pytest.mark.parametrize(
    "client_from_address", ["192.0.2.1", "10.0.0.1", "::ffff:192.0.2.1", "fe80::1", "unix"], indirect=True
)
async def test_request_from_another_address_needs_a_key(client_from_address: httpx2.AsyncClient) -> None:
    is_refused(await client_from_address.get("/v1/jobs"), 401, "UNAUTHORIZED")


@pytest.mark.parametrize("client_from_address", ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"], indirect=True)
async def test_every_loopback_address_is_accepted_without_a_key(client_from_address: httpx2.AsyncClient) -> None:
    assert (await client_from_address.get("/v1/jobs")).status_code == 200


def test_after_the_first_key_every_request_needs_a_key_even_once_it_is_revoked(
    database: str, api: httpx2.Client
) -> None:
    assert api.get("/v1/jobs").status_code == 200
    key = key_for(database, "acme")
    assert "API key missing" in is_refused(api.get("/v1/jobs"), 401, "UNAUTHORIZED")
    assert api.get("/v1/jobs", headers=bearer(key.secret)).status_code == 200
    as_owner(database, lambda pool: service.revoke_key(pool, key.key.prefix))
    is_refused(api.get("/v1/jobs"), 401, "UNAUTHORIZED")
    is_refused(api.get("/v1/jobs", headers=bearer(key.secret)), 401, "UNAUTHORIZED")
    with api_on(database) as address, client_for(address) as later:
        is_refused(later.get("/v1/jobs"), 401, "UNAUTHORIZED")


def test_wrong_key_is_refused_even_where_no_key_is_required(api: httpx2.Client) -> None:
    is_refused(api.get("/v1/jobs", headers=bearer(new_secret())), 401, "UNAUTHORIZED")


def test_authentication_precedes_parsing_of_the_body(database: str, api: httpx2.Client) -> None:
    key_for(database, "acme")
    as_json = {"Content-Type": "application/json"}
    is_refused(api.post("/v1/jobs", content=b"{", headers=as_json), 401, "UNAUTHORIZED")


READS = [("GET", "/v1/jobs"), ("GET", "/v1/jobs/{id}"), ("GET", "/v1/jobs/{id}/events")]
WRITES = [("POST", "/v1/jobs"), ("POST", "/v1/jobs/{id}/cancel"), ("POST", "/v1/jobs/{id}/redrive")]


def test_key_permits_only_what_its_scopes_allow(database: str, api: httpx2.Client) -> None:
    secrets = {scope: key_for(database, "acme", [scope]).secret for scope in (*ALL, "admin", "posts:write")}
    job = api.post("/v1/jobs", json=JOB, headers=bearer(secrets["admin"])).json()

    def answers(scope: str, routes: list[tuple[str, str]]) -> set[int]:
        return {
            api.request(
                verb, path.format(id=job["id"]), json=JOB if verb == "POST" else None, headers=headers
            ).status_code
            for verb, path in routes
            for headers in [bearer(secrets[scope])]
        }

    assert answers("ledger:read", READS) == answers("admin", READS) == {200}
    assert answers("ledger:read", WRITES) == answers("ledger:write", READS) == {403}
    assert answers("posts:write", READS + WRITES) == {403}
    assert api.get(f"/v1/jobs/{job['id']}", headers=bearer(secrets["admin"])).json()["status"] == "queued"
    detail = is_refused(api.post("/v1/jobs", json=JOB, headers=bearer(secrets["ledger:read"])), 403, "FORBIDDEN")
    assert "--scope ledger:write" in detail
    assert not answers("ledger:write", WRITES) & {401, 403}
    assert not answers("admin", WRITES) & {401, 403}


def test_key_of_a_user_without_an_org_is_refused_with_the_command_to_fix_it(database: str, api: httpx2.Client) -> None:
    headers = bearer(key_for(database, None, ["admin"], uid="anna").secret)
    for verb, path in READS + WRITES:
        answer = api.request(verb, path.format(id=NOWHERE), json=JOB if verb == "POST" else None, headers=headers)
        assert "duly keys create NAME --org ORG" in is_refused(answer, 403, "FORBIDDEN")


def test_key_of_a_user_within_an_org_acts_for_the_org(database: str, api: httpx2.Client) -> None:
    first, second = (key_for(database, "acme", uid=uid) for uid in ("anna", "ben"))
    job = api.post("/v1/jobs", json=JOB, headers=bearer(first.secret)).json()
    assert job["org_id"] == str(first.key.org_id)
    assert api.get(f"/v1/jobs/{job['id']}", headers=bearer(second.secret)).status_code == 200


def test_actions_of_a_key_are_logged_under_its_prefix(database: str, api: httpx2.Client) -> None:
    key = key_for(database, "acme")
    headers, name = bearer(key.secret), f"key:{key.key.prefix}"
    job = api.post("/v1/jobs", json=JOB, headers=headers).json()
    assert job["requested_by"] == name
    assert api.post("/v1/jobs", json={**JOB, "requested_by": "anna"}, headers=headers).json()["requested_by"] == "anna"
    api.post(f"/v1/jobs/{job['id']}/cancel", headers=headers)
    events = api.get(f"/v1/jobs/{job['id']}/events", headers=headers).json()["items"]
    assert [event["detail_json"]["actor"] for event in events] == [name, name]
    assert key.secret not in json.dumps([job, events])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "Localhost", "::ffff:127.0.0.1"])
def test_loopback_host_names_are_recognized(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1", "localhost.", "my.localhost", "1"]
)
def test_other_host_names_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_no_route_with_an_id_finds_a_job_of_another_org(database: str) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(api_on(database))
        ours, theirs = (
            stack.enter_context(client_for(address, key_for(database, org, ["admin"]).secret))
            for org in ("acme", "other")
        )
        job = ours.post("/v1/jobs", json={**JOB, "key": "k", "payload": {"secret": "hunter2"}}).json()
        probed = 0
        for path, verbs in ours.get("/openapi.json").json()["paths"].items():
            if "{job_id}" not in path:  # those that take a post are asked in test_openapi.py
                continue
            for verb in verbs:
                probed += 1
                found = theirs.request(verb, path.format(job_id=job["id"]))
                nothing = theirs.request(verb, path.format(job_id=NOWHERE))
                assert found.status_code == nothing.status_code == 404, (verb, path)
                assert found.text == nothing.text.replace(str(NOWHERE), job["id"])
                assert {**found.headers, "date": "", "content-length": ""} == {
                    **nothing.headers,
                    "date": "",
                    "content-length": "",
                }
        assert probed >= 4
        assert ours.get(f"/v1/jobs/{job['id']}").json() == job  # and nothing was done to it


def test_no_list_contains_jobs_of_another_org(database: str) -> None:
    with ExitStack() as stack:
        address = stack.enter_context(api_on(database))
        ours, theirs = (
            stack.enter_context(client_for(address, key_for(database, org, ["admin"]).secret))
            for org in ("acme", "other")
        )
        jobs = [ours.post("/v1/jobs", json=JOB).json() for _ in range(3)]
        cursor = ours.get("/v1/jobs", params={"limit": 1}).json()["next"]
        lists = [
            path
            for path, verbs in ours.get("/openapi.json").json()["paths"].items()
            if path.startswith("/v1/jobs") and "{" not in path and "get" in verbs
        ]
        assert lists == ["/v1/jobs"]  # a feed needs no key, and the SLOs are of the whole system
        for path in lists:
            for query in ({}, {"status": "queued"}, {"type": "work"}, {"next": cursor}):
                assert theirs.get(path, params=query).json()["items"] == [], (path, query)
        assert len(ours.get("/v1/jobs").json()["items"]) == len(jobs)


def test_same_idempotency_key_in_two_orgs_creates_two_jobs(database: str) -> None:
    with api_on(database) as address:
        made: list[str] = []
        for org in ("acme", "other"):
            with client_for(address, key_for(database, org).secret) as client:
                answer = client.post("/v1/jobs", json={**JOB, "key": "order:42"})
                assert answer.status_code == 201
                made.append(answer.json()["id"])
    assert made[0] != made[1]
