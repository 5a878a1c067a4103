"""Jobs over HTTP, with the role of the API: every route and every error."""

import json
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from duly.canonical_json import MAX_BYTES, canonical_bytes
from duly.configuration.engine import parse_address
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.http.app import build_app
from duly.http.problems import MEDIA_TYPE
from duly.http.request_limits import MAX_BODY_BYTES
from duly.jobs import repository
from duly.jobs.model import DEFAULT_ORG
from duly.paging import encode_cursor
from duly.settings import Settings
from duly.testing import TestDatabases, install_test_clock
from tests.support.api import api_on, client_for, running, temporary_object_store
from tests.support.jobs.actions import JobActions

Json = dict[str, Any]
NOWHERE = UUID(int=7)
AS_JSON = {"Content-Type": "application/json"}


@pytest.fixture
def database(movable_database: str) -> str:
    """Return a database with a test clock."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[psycopg.Connection[Any], None, None]:
    """Return an administrator's connection to a database with a test clock."""
    with psycopg.connect(database, autocommit=True) as connection:
        install_test_clock(connection)
        yield connection


@pytest.fixture
def api(admin: psycopg.Connection[Any]) -> Generator[httpx2.Client, None, None]:
    """Return a local client without a key, where no key was ever created."""
    with api_on(admin.info.dsn) as address, client_for(address) as client:
        yield client


@pytest.fixture(scope="module")
def shared_client(databases: TestDatabases, worker_id: str) -> Generator[httpx2.Client, None, None]:
    """Return a client without a key, shared by tests that change nothing."""
    with databases.clone(worker_id) as dsn, api_on(dsn) as address, client_for(address) as client:
        yield client


@pytest.fixture
async def jobs(admin: psycopg.Connection[Any]) -> AsyncGenerator[JobActions, None]:
    """Return a connection with the role of a worker."""
    worker: AsyncConnection[Any]
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as worker:
        yield JobActions(admin, worker)


def create_job(api: httpx2.Client, **body: Any) -> Json:
    """Create a job."""
    answer = api.post("/v1/jobs", json={"type": "work", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem_of(answer: httpx2.Response, status: int, code: str) -> Json:
    """Check for a problem response with this status and code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    problem: Json = answer.json()
    assert problem["status"] == status
    assert problem["code"] == code
    assert problem["type"] == f"urn:duly:error:{code}"
    assert problem["title"]
    assert problem["detail"]
    assert problem.keys() - {"errors"} == {"type", "title", "status", "detail", "code"}
    return problem


def events_of(api: httpx2.Client, job: Json) -> list[Json]:
    return api.get(f"/v1/jobs/{job['id']}/events").json()["items"]


async def dead_letter(api: httpx2.Client, jobs: JobActions) -> Json:
    """Create a dead letter."""
    job = create_job(api, max_attempts=1)
    await jobs.fail(*await jobs.claim())
    return job


# Asking ---------------------------------------------------------------------------------------------------------------


def test_repeated_post_with_a_key_creates_one_job_and_returns_200(api: httpx2.Client) -> None:
    body = {"type": "thumbnail", "payload": {"image_id": "a1"}, "key": "order:42"}
    first, second = api.post("/v1/jobs", json=body), api.post("/v1/jobs", json=body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    assert first.headers["location"] == second.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    assert api.get(first.headers["location"]).json() == first.json()


def test_key_used_for_another_request_is_refused(api: httpx2.Client) -> None:
    create_job(api, key="order:42")
    again = api.post("/v1/jobs", json={"type": "work", "key": "order:42", "payload": {"other": 1}})
    assert "order:42" in problem_of(again, 409, "KEY_REUSED")["detail"]
    assert len(api.get("/v1/jobs").json()["items"]) == 1


def test_idempotency_key_header_equals_the_key_field(api: httpx2.Client) -> None:
    body, header = {"type": "work"}, {"Idempotency-Key": "order:42"}
    created = api.post("/v1/jobs", json=body, headers=header)
    assert (created.status_code, created.json()["idempotency_key"]) == (201, "order:42")
    for again in (
        api.post("/v1/jobs", json=body, headers=header),
        api.post("/v1/jobs", json={**body, "key": "order:42"}),
    ):
        assert (again.status_code, again.json()["id"]) == (200, created.json()["id"])
    both = api.post("/v1/jobs", json={**body, "key": "order:43"}, headers=header)
    assert "Idempotency-Key and the field key differ" in problem_of(both, 422, "INVALID_ARGUMENT")["detail"]
    problem_of(api.post("/v1/jobs", json=body, headers={"Idempotency-Key": "k" * 256}), 422, "INVALID_ARGUMENT")


def test_every_option_of_the_request_is_stored(api: httpx2.Client) -> None:
    job = create_job(
        api,
        type="images/thumb:v2",
        payload={"a": [1, 2.5, None, True, "ö", {"b": {}}]},
        queue="images",
        key="k" * 255,
        run_at="2030-01-31T12:00:00.5+02:00",
        priority=-100,
        max_attempts=1000,
        backoff={"policy": "fixed", "base_seconds": 2.5, "cap_seconds": 31622400},
        timeout_seconds=0.5,
        retain_seconds=86400,
        requested_by="anna",
    )
    expected: Json = {
        "type": "images/thumb:v2",
        "payload": {"a": [1, 2.5, None, True, "ö", {"b": {}}]},
        "queue": "images",
        "idempotency_key": "k" * 255,
        "run_at": "2030-01-31T10:00:00.500000Z",
        "priority": -100,
        "max_attempts": 1000,
        "backoff_policy": "fixed",
        "backoff_base_seconds": 2.5,
        "backoff_cap_seconds": 31622400,
        "timeout_seconds": 0.5,
        "requested_by": "anna",
        "org_id": str(DEFAULT_ORG),
        "status": "queued",
        "attempt": 0,
        "starts": 0,
        "revision": 1,
        "result": None,
        "finished_at": None,
    }
    assert {name: job[name] for name in expected} == expected


def test_event_names_actor_and_requested_by_if_they_differ(api: httpx2.Client) -> None:
    detail = events_of(api, create_job(api, requested_by="anna"))[0]["detail_json"]
    assert detail == {"actor": "loopback", "requested_by": "anna"}
    assert events_of(api, create_job(api, requested_by="loopback"))[0]["detail_json"] == {"actor": "loopback"}


def test_delay_is_measured_by_the_database_clock(api: httpx2.Client, admin: psycopg.Connection[Any]) -> None:
    job = create_job(api, delay_seconds=31622400)
    asked = "select run_at - created_at = interval '366 days' from ledger.job where id = %s"
    assert admin.execute(asked, [job["id"]]).fetchone() == (True,)


def test_times_are_returned_in_utc_whatever_the_server_time_zone(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as admin:
        name = sql.Identifier(parse_address(database)["dbname"])
        admin.execute(sql.SQL("alter database {} set timezone = 'Asia/Kolkata'").format(name))
    with api_on(database) as address, client_for(address) as api:
        job = create_job(api, run_at="2030-01-31T12:00:00+05:30")
        assert job["run_at"] == "2030-01-31T06:30:00Z"
        assert job["created_at"].endswith("Z")
        assert events_of(api, job)[0]["ts"].endswith("Z")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("type", None, "string"),
        ("type", "", "pattern"),
        ("type", "two words", "pattern"),
        ("type", "work\n", "pattern"),
        ("type", "a" * 101, "100 characters"),
        ("type", 5, "string"),
        ("queue", "*", "pattern"),
        ("queue", "a" * 101, "100 characters"),
        ("key", "", "1 character"),
        ("key", "k" * 256, "255 characters"),
        ("key", "a\0b", "pattern"),
        ("key", "\ud800", "unicode"),
        ("requested_by", "", "1 character"),
        ("requested_by", "r" * 256, "255 characters"),
        ("requested_by", "\0", "pattern"),
        ("priority", 101, "less than or equal to 100"),
        ("priority", -101, "-100"),
        ("priority", 1.5, "integer"),
        ("priority", "5", "integer"),
        ("priority", True, "integer"),
        ("priority", 10**30, "100"),
        ("max_attempts", 0, "1"),
        ("max_attempts", 1001, "1000"),
        ("delay_seconds", -1, "0"),
        ("delay_seconds", 31622401, "31622400"),
        ("delay_seconds", "60", "number"),
        ("timeout_seconds", 0, "greater than 0"),
        ("timeout_seconds", 31622401, "31622400"),
        ("retain_seconds", 86399, "86400"),
        ("retain_seconds", 316224001, "316224000"),
        ("run_at", "2030-01-31T12:00:00", "timezone"),
        ("run_at", "2030-01-31 12:00", "timezone"),
        ("run_at", "2030-01-31", "time with its zone"),
        ("run_at", "tomorrow", "time with its zone"),
        ("run_at", 1893456000, "time with its zone"),
        ("run_at", "1893456000", "time with its zone"),
        ("run_at", "2030-02-31T12:00:00Z", "day"),
        ("run_at", "1999-12-31T23:59:59Z", "2000 to 2199"),
        ("run_at", "2200-01-01T00:00:00Z", "2000 to 2199"),
        ("run_at", "0001-01-01T00:00:00+14:00", "2000 to 2199"),
        ("backoff", "exp", "object"),
        ("backoff", {"policy": "linear"}, "none"),
        ("backoff", {"base_seconds": 601}, "more than cap_seconds 600"),
        ("backoff", {"cap_seconds": 31622401}, "31622400"),
        ("backoff", {"base": 1}, "not permitted"),
        ("payload", [], "$: must be an object"),
        ("payload", None, "$: must be an object"),
        ("payload", {"a": "x\0"}, "$.a: contains the character NUL"),
        ("payload", {"a\0": 1}, "NUL"),
        ("payload", {"a": ["\udfff"]}, "$.a[0]: contains a lone surrogate"),
        ("payload", {"a": 2**53}, "2^53"),
        ("payload", {"a": 1e300}, "2^53"),
        ("prio", 5, "not permitted"),
    ],
)
def test_invalid_field_is_refused_with_its_location_and_rule(
    field: str, value: object, words: str, shared_client: httpx2.Client
) -> None:
    body = json.dumps({"type": "work", field: value})
    answer = shared_client.post("/v1/jobs", content=body, headers=AS_JSON)
    problem = problem_of(answer, 422, "INVALID_ARGUMENT")
    (error,) = problem["errors"]
    assert error["location"].startswith("body.")
    assert words in error["message"]
    assert problem["detail"] == f"{error['location']}: {error['message']}"
    assert shared_client.get("/v1/jobs").json()["items"] == []


def test_field_name_with_a_lone_surrogate_is_refused(shared_client: httpx2.Client) -> None:
    answer = shared_client.post("/v1/jobs", content=b'{"type": "work", "\\ud800": 5}', headers=AS_JSON)
    problem_of(answer, 422, "INVALID_ARGUMENT")


def test_run_at_together_with_delay_is_refused(shared_client: httpx2.Client) -> None:
    body = {"type": "work", "run_at": "2030-01-01T00:00:00Z", "delay_seconds": 1}
    problem = problem_of(shared_client.post("/v1/jobs", json=body), 422, "INVALID_ARGUMENT")
    assert "exclude each other" in problem["detail"]


def test_validation_lists_all_errors_at_once_without_echoing_values(shared_client: httpx2.Client) -> None:
    body = {"priority": 1000, "queue": "hunter2 hunter2", **{f"x{n}": "hunter2" for n in range(50)}}
    problem = problem_of(shared_client.post("/v1/jobs", json=body), 422, "INVALID_ARGUMENT")
    assert {error["location"] for error in problem["errors"][:3]} == {"body.type", "body.queue", "body.priority"}
    assert len(problem["errors"]) == 20
    assert "(and 52 more)" in problem["detail"]
    assert "hunter2" not in json.dumps(problem)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("body", ['{"type": "work", "payload": {"a": %s}}', '{"type": "work", "delay_seconds": %s}'])
def test_non_finite_number_is_refused(number: str, body: str, shared_client: httpx2.Client) -> None:
    answer = shared_client.post("/v1/jobs", content=body % number, headers=AS_JSON)
    assert "finite" in problem_of(answer, 422, "INVALID_ARGUMENT")["detail"]


def nested(levels: int) -> Json:
    """Return a nested object."""
    return {"a": nested(levels - 1)} if levels > 1 else {}


def test_payload_depth_is_limited_to_64_levels(api: httpx2.Client) -> None:
    assert create_job(api, payload=nested(64))["payload"] == nested(64)
    answer = api.post("/v1/jobs", json={"type": "work", "payload": nested(65)})
    assert "more than 64 levels" in problem_of(answer, 422, "INVALID_ARGUMENT")["detail"]


def test_payload_size_is_limited_to_1_mib_independent_of_escaping(api: httpx2.Client) -> None:
    rest = MAX_BYTES - len(canonical_bytes({"a": ""})) - 60  # jsonb counts a few bytes more than the text has
    payload = {"a": "ö" * (rest // 2)}
    escaped = json.dumps({"type": "work", "payload": payload})
    assert len(escaped) > 2.9 * MAX_BYTES
    answer = api.post("/v1/jobs", content=escaped, headers=AS_JSON)
    assert answer.status_code == 201
    assert api.get(answer.headers["location"]).json()["payload"] == payload
    answer = api.post("/v1/jobs", json={"type": "work", "payload": {"a": "ö" * (MAX_BYTES // 2)}})
    assert f"limit of {MAX_BYTES} bytes" in problem_of(answer, 422, "INVALID_ARGUMENT")["detail"]


def test_payload_too_large_as_jsonb_is_refused_without_naming_the_constraint(shared_client: httpx2.Client) -> None:
    answer = shared_client.post("/v1/jobs", json={"type": "work", "payload": {"a": [1] * 200_000}})
    problem = problem_of(answer, 422, "INVALID_ARGUMENT")
    assert "payload" in problem["detail"]
    assert "ck_job" not in problem["detail"]


# Bodies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "required"),
        (b"{", "is not JSON"),
        (b"{'type': 'work'}", "is not JSON"),
        (b'{"type": "work"} {}', "is not JSON"),
        (b"\xff\xfe\xfd", "JSON"),
        (b'{"type": "\xff"}', "JSON"),
        (b'{"payload": ' + b"[" * 100_000, "JSON"),
        (b'{"priority": ' + b"9" * 5000 + b"}", "JSON"),
        (b"[]", "JSON object"),
        (b'"work"', "JSON object"),
        (b"null", "JSON object"),
    ],
)
def test_body_that_is_not_a_json_object_is_refused(content: bytes, words: str, shared_client: httpx2.Client) -> None:
    answer = shared_client.post("/v1/jobs", content=content, headers=AS_JSON)
    problem = problem_of(answer, 422, "INVALID_ARGUMENT")
    assert problem["errors"][0]["location"] == "body"
    assert words in problem["detail"] + problem["errors"][0]["message"]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
def test_body_without_a_json_content_type_is_refused(content_type: str | None, shared_client: httpx2.Client) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = shared_client.post("/v1/jobs", content=b'{"type": "work"}', headers=headers)
    assert "Content-Type: application/json" in problem_of(answer, 422, "INVALID_ARGUMENT")["detail"]


def test_body_without_content_length_is_limited_while_reading(shared_client: httpx2.Client) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(8):
            yield b" " * (MAX_BODY_BYTES // 4)

    headers = AS_JSON
    answer = shared_client.post("/v1/jobs", content=parts(), headers=headers)
    assert "transfer-encoding" in answer.request.headers
    problem_of(answer, 413, "TOO_LARGE")
    answer = shared_client.post(f"/v1/jobs/{NOWHERE}/redrive", content=parts(), headers=headers)
    problem_of(answer, 413, "TOO_LARGE")


def test_chunked_body_is_read_completely(api: httpx2.Client) -> None:
    parts = iter([b'{"type"', b': "work"', b"}"])
    answer = api.post("/v1/jobs", content=parts, headers=AS_JSON)
    assert answer.status_code == 201


# Looking --------------------------------------------------------------------------------------------------------------


def test_jobs_are_listed_in_pages_without_duplicates(api: httpx2.Client) -> None:
    jobs = [create_job(api, payload={"nth": nth})["id"] for nth in range(5)]
    first = api.get("/v1/jobs", params={"limit": 2}).json()
    create_job(api)  # at the front, where it moves nothing
    second = api.get("/v1/jobs", params={"limit": 2, "next": first["next"]}).json()
    third = api.get("/v1/jobs", params={"limit": 2, "next": second["next"]}).json()
    assert [job["id"] for page in (first, second, third) for job in page["items"]] == jobs[::-1]
    assert third["next"] is None
    assert not {"payload", "result"} & first["items"][0].keys()


async def test_job_list_can_be_filtered(api: httpx2.Client, jobs: JobActions) -> None:
    dead = await dead_letter(api, jobs)
    waiting = create_job(api, type="mail", queue="slow")
    ended = api.get(f"/v1/jobs/{dead['id']}").json()["finished_at"]

    def found(**filters: str) -> list[str]:
        answer = api.get("/v1/jobs", params=filters)
        assert answer.status_code == 200, answer.text
        return [job["id"] for job in answer.json()["items"]]

    assert found() == [waiting["id"], dead["id"]]
    assert found(type="mail") == found(queue="slow") == found(status="queued") == [waiting["id"]]
    assert found(status="dead_letter") == found(finished_from=ended) == [dead["id"]]
    assert found(finished_before=ended) == found(type="work", queue="slow") == []
    assert found(finished_from="0001-01-01T00:00:00+14:00") == [dead["id"]]
    assert found(finished_before="9999-12-31T23:59:59-14:00") == [dead["id"]]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "query.limit"),
        ("limit=201", "query.limit"),
        ("limit=many", "query.limit"),
        ("status=done", "query.status"),
        ("type=a%20b", "query.type"),
        ("type=%00", "query.type"),
        ("queue=" + "a" * 101, "query.queue"),
        ("finished_from=2030-01-01T00:00:00", "query.finished_from"),
        ("finished_from=2030-01-01T00:00:00+00:00", "%2B"),
        ("finished_before=0", "query.finished_before"),
        ("state=queued", "query.state"),
        ("next=", "query.next"),
        ("next=%2B", "query.next"),
        ("next=" + "a" * 513, "query.next"),
        ("next=aaaa", "invalid cursor"),
        ("next=WzEsMl0", "invalid cursor"),
    ],
)
def test_invalid_query_parameter_is_refused(query: str, words: str, shared_client: httpx2.Client) -> None:
    assert words in problem_of(shared_client.get(f"/v1/jobs?{query}"), 422, "INVALID_ARGUMENT")["detail"]


@pytest.mark.parametrize("seconds", ["", "+00:00:00.000001", "+23:59", "-23:59"])
@pytest.mark.parametrize("year", ["0001", "2030", "9999"])
def test_unissued_cursor_gives_an_empty_page(year: str, seconds: str, shared_client: httpx2.Client) -> None:
    cursor = encode_cursor(f"{year}-12-31T00:00:00{seconds}", str(NOWHERE))
    assert shared_client.get("/v1/jobs", params={"next": cursor}).json() == {"items": [], "next": None}


async def test_events_are_listed_in_pages(api: httpx2.Client, jobs: JobActions) -> None:
    job = await dead_letter(api, jobs)
    path = f"/v1/jobs/{job['id']}/events"
    first = api.get(path, params={"limit": 3}).json()
    rest = api.get(path, params={"limit": 3, "next": first["next"]}).json()
    events = first["items"] + rest["items"]
    assert [event["seq"] for event in events] == [1, 2, 3, 4]
    assert [event["next_status"] for event in events] == ["queued", "running", "failed", "dead_letter"]
    assert {event["job_id"] for event in events} == {job["id"]}
    assert events[0]["detail_json"] == {"actor": "loopback"}
    assert events[2]["detail_json"]["code"] == "OOPS"
    assert rest["next"] is None
    problem_of(api.get(path, params={"next": "WyJ4Il0"}), 422, "INVALID_ARGUMENT")
    problem_of(api.get(path, params={"type": "work"}), 422, "INVALID_ARGUMENT")


# Steering -------------------------------------------------------------------------------------------------------------


def test_cancel_ends_a_queued_job_at_once_and_refuses_a_finished_one(api: httpx2.Client) -> None:
    job = create_job(api)
    cancelled = api.post(f"/v1/jobs/{job['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "canceled")
    assert cancelled.json()["finished_at"]
    assert events_of(api, job)[-1]["detail_json"] == {"actor": "loopback", "reason": "cancel_requested"}
    again = problem_of(api.post(f"/v1/jobs/{job['id']}/cancel"), 409, "ILLEGAL_TRANSITION")
    assert "is canceled" in again["detail"]


async def test_cancel_of_a_running_job_requests_a_stop_or_ends_it_now(api: httpx2.Client, jobs: JobActions) -> None:
    job = create_job(api)
    await jobs.claim()
    asked = api.post(f"/v1/jobs/{job['id']}/cancel", json={}).json()
    assert asked["status"] == "running"
    assert asked["cancel_requested_at"]
    assert asked["lease_owner"].startswith("worker-1/")
    stopped = api.post(f"/v1/jobs/{job['id']}/cancel", json={"now": True}).json()
    assert (stopped["status"], stopped["lease_owner"]) == ("canceled", None)
    assert [event["next_status"] for event in events_of(api, job)] == ["queued", "running", "running", "canceled"]
    jobs.verify()


def test_cancel_with_release_key_releases_the_key_of_a_canceled_job(api: httpx2.Client) -> None:
    job = create_job(api, key="order:42")
    api.post(f"/v1/jobs/{job['id']}/cancel")
    conflict = problem_of(
        api.post("/v1/jobs", json={"type": "work", "key": "order:42", "queue": "images"}), 409, "KEY_REUSED"
    )
    assert (
        f"already belongs to job {job['id']} (canceled), asked for with queue default, not images" in conflict["detail"]
    )
    released = api.post(f"/v1/jobs/{job['id']}/cancel", json={"release_key": True})
    assert (released.status_code, released.json()["idempotency_key"]) == (200, None)
    expected_detail = {"actor": "loopback", "reason": "key_released", "released_key": "order:42"}
    assert events_of(api, job)[-1]["detail_json"] == expected_detail
    assert api.post("/v1/jobs", json={"type": "work", "key": "order:42", "queue": "images"}).status_code == 201


@pytest.mark.parametrize("body", [{"now": "yes"}, {"now": 1}, {"force": True}, {"release_key": 1}, [], "now"])
def test_invalid_cancel_body_is_refused_and_cancels_nothing(body: object, api: httpx2.Client) -> None:
    job = create_job(api)
    problem_of(api.post(f"/v1/jobs/{job['id']}/cancel", json=body), 422, "INVALID_ARGUMENT")
    assert api.get(f"/v1/jobs/{job['id']}").json()["status"] == "queued"


async def test_only_a_dead_letter_is_redriven(api: httpx2.Client, jobs: JobActions) -> None:
    job = await dead_letter(api, jobs)
    assert api.get(f"/v1/jobs/{job['id']}").json()["last_error_code"] == "OOPS"
    redriven = api.post(f"/v1/jobs/{job['id']}/redrive")
    assert (redriven.status_code, redriven.json()["status"], redriven.json()["starts"]) == (200, "queued", 0)
    assert events_of(api, job)[-1]["detail_json"] == {"actor": "loopback", "reason": "redriven"}
    again = problem_of(api.post(f"/v1/jobs/{job['id']}/redrive"), 409, "ILLEGAL_TRANSITION")
    assert "it is no dead letter" in again["detail"]
    jobs.verify()


# Saying no ------------------------------------------------------------------------------------------------------------


ROUTES = [("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/redrive")]


@pytest.mark.parametrize(("verb", "rest"), ROUTES)
def test_unknown_job_is_not_found(verb: str, rest: str, shared_client: httpx2.Client) -> None:
    problem = problem_of(shared_client.request(verb, f"/v1/jobs/{NOWHERE}{rest}"), 404, "NOT_FOUND")
    assert problem["detail"] == f"there is no job {NOWHERE}"
    problem_of(shared_client.request(verb, f"/v1/jobs/nonsense{rest}"), 422, "INVALID_ARGUMENT")


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/jobs/", "/v1/nothing", f"/v1/jobs/{NOWHERE}/", "/docs", "/v1%00"])
def test_unknown_path_is_not_found(path: str, shared_client: httpx2.Client) -> None:
    assert "/openapi.json" in problem_of(shared_client.get(path), 404, "NOT_FOUND")["detail"]


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", "GET, POST"),
        ("PUT", f"/v1/jobs/{NOWHERE}", "GET"),
        ("GET", f"/v1/jobs/{NOWHERE}/cancel", "POST"),
        ("POST", "/healthz", "GET"),
    ],
)
def test_wrong_method_is_refused_with_the_allowed_methods(
    verb: str, path: str, allowed: str, shared_client: httpx2.Client
) -> None:
    answer = shared_client.request(verb, path)
    problem_of(answer, 405, "METHOD_NOT_ALLOWED")
    assert set(answer.headers["allow"].split(", ")) <= set(allowed.split(", "))


@pytest.mark.breaks_invariants
def test_database_without_tables_is_reported_as_not_migrated_without_details(api: httpx2.Client, admin: Any) -> None:
    admin.execute("alter table ledger.job rename to somewhere")
    problem = problem_of(api.get("/v1/jobs"), 500, "NOT_MIGRATED")
    assert "ledger" not in problem["detail"]


def test_unexpected_error_is_reported_without_internals(api: httpx2.Client, admin: Any) -> None:
    admin.execute("revoke select on ledger.job from duly_api")
    problem = problem_of(api.get("/v1/jobs"), 500, "UNEXPECTED")
    assert "job" not in json.dumps(problem)
    assert api.get("/healthz").status_code == 200


def test_api_sets_its_role_for_a_more_privileged_login(admin: psycopg.Connection[Any]) -> None:
    admin.execute("select ledger.enqueue(org => %s, type => 'theirs')", [uuid4()])
    with (
        temporary_object_store() as images,
        running(build_app(Settings(), admin.info.dsn, images, role=Names().api)) as address,
        client_for(address) as api,
    ):
        job = create_job(api)
        assert [each["id"] for each in api.get("/v1/jobs").json()["items"]] == [job["id"]]
    with (
        temporary_object_store() as images,
        running(build_app(Settings(), admin.info.dsn, images, role="nobody_here")) as address,
        client_for(address) as api,
    ):
        assert "nobody_here" not in problem_of(api.get("/v1/jobs"), 500, "NOT_MIGRATED")["detail"]


def test_omitted_fields_get_the_defaults_of_the_database(api: httpx2.Client, admin: psycopg.Connection[Any]) -> None:
    job = create_job(api)
    plain = admin.execute("select id from ledger.enqueue(org => %s, type => 'work')", [DEFAULT_ORG]).fetchone()
    asked = (
        "select payload, queue, priority, max_attempts, backoff_policy, backoff_base_seconds, backoff_cap_seconds,"
        " timeout_seconds, retain_for from ledger.job"
    )
    rows = admin.execute(asked).fetchall()
    assert plain
    assert rows[0] == rows[1]
    assert job["requested_by"] == "loopback"


async def test_result_is_returned_as_the_handler_stored_it(api: httpx2.Client, jobs: JobActions) -> None:
    job = create_job(api)
    await repository.settle_done(jobs.worker, await jobs.claim(), [["any", {"json": 1.5}]])
    shown = api.get(f"/v1/jobs/{job['id']}").json()
    assert (shown["status"], shown["result"]) == ("succeeded", ["any", {"json": 1.5}])
    assert shown["retain_until"] > shown["finished_at"] > shown["created_at"]
