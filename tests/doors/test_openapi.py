"""The OpenAPI document is true: whatever is sent, nothing breaks, and every answer is one that it announces."""

import json
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, cast
from uuid import UUID, uuid4

import hypothesis
import psycopg
import pytest
import schemathesis
from hypothesis import strategies as st
from PIL import Image
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

from duly.api.app import build_app
from duly.api.problems import MEDIA_TYPE
from duly.errors import DulyError
from duly.kernel.rate import Rate
from duly.people import NewKey
from duly.testing import TestDatabases
from tests.support.api import SECONDS, api_on, client_of, key_for
from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent.parent / "golden" / "openapi.json"
DOCUMENT = build_app("postgresql://nowhere/at_all", cast("Any", None)).openapi()
ENVELOPED = "post /v1/createPostIntent"  # which has the statuses and the bodies of its contract
PHOTO = "post /v1/posts/images"
OPEN = {"get /healthz", "get /readyz", "get /ics/{token}"}  # of the last the address is the key
NOT_JSON = {"get /metrics": "text/plain", "get /v1/posts/{post_id}/image": "image/jpeg"}


def photo() -> bytes:
    """A photograph."""
    file = BytesIO()
    Image.new("RGB", (3, 2)).save(file, "JPEG")
    return file.getvalue()


TESTER = cast("Any", schemathesis)  # its generic types have more parameters than it fills in
TESTER.openapi.format("binary", st.just(photo()) | st.binary(max_size=100))
for kind in DOCUMENT["paths"]["/v1/posts/images"]["post"]["requestBody"]["content"]:
    TESTER.openapi.media_type(kind, st.just(photo()) | st.binary(max_size=100))
OPERATIONS = [each.ok() for each in TESTER.openapi.from_dict(DOCUMENT).get_all_operations()]
CASES = [
    (each, mode)
    for each in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE
    or (
        each.label != "GET /ics/{token}"
        and [*(part for part in each.iter_parameters() if part.name != "Authorization"), *each.body]
    )
]  # what takes nothing, or any text, takes nothing wrong
EXAMPLES = 30
WANTED = {GenerationMode.POSITIVE: {200, 201, 409}, GenerationMode.NEGATIVE: {400, 422}}
JOBS = 8
MANY = 1_000_000
NOWHERE = UUID(int=7)
SLOW = [hypothesis.HealthCheck.too_slow]  # the machine may be busy

load_all_checks()
PROMISES = TESTER.checks.CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)


@dataclass(frozen=True)
class Api:
    """An API, an administrator's key to it, and what can be found with it."""

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
    token: str  # of the calendar of cleo, whom nobody else acts for


@pytest.fixture(scope="module")
def api(databases: TestDatabases, worker_id: str) -> Generator[Api, None, None]:
    """An API over jobs of which some wait, some run and some are dead letters, and over posts of some days."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        key = key_for(dsn, "acme", ["admin"], uid="anna", telegram_id=42)
        asked = "select (ledger.enqueue(org => %s, type => 'work')).id::text from generate_series(1, %s)"
        jobs = [key for (key,) in admin.execute(asked, [key.key.org_id, JOBS])]
        held = (
            "status = 'running', starts = 1, lease_owner = 'w/1', lease_expires_at = duly.clock() + interval '1 hour'"
        )
        failed = "status = 'failed', lease_expires_at = null, last_error_code = 'OOPS', last_error_message = 'because'"
        for change, first in ((held, 2), (failed, 4), ("status = 'dead_letter', lease_owner = null", 4)):
            admin.execute(f"update ledger.job set {change} where id = any (%s::uuid[])".encode(), [jobs[first:]])
        key_for(dsn, None, ["posts:read"], uid="bo")
        with hurried(), api_on(dsn) as address, client_of(address, key.secret) as anna:
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
            with client_of(address, key_for(dsn, None, ["scheduler:write"], uid="cleo").secret) as cleo:
                token = cleo.post("/v1/calendar").json()["token"]
            yield Api(address, key, jobs, post, released, images, session, know_day(admin), schedule, run, token)


@contextmanager
def hurried() -> Generator[None, None, None]:
    """What is asked here by one person in a minute is more than anybody may."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("duly.api.app.Rate", partial(Rate, burst=MANY))
        yield


def know_day(admin: psycopg.Connection[Any]) -> str:
    """A day of anna's that a worker has seen."""
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


@pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module"
)  # what draws here imports something that does, once
@pytest.mark.parametrize(("operation", "mode"), CASES, ids=[f"{each.label} {mode.value}" for each, mode in CASES])
def test_every_answer_is_one_that_the_document_announces(operation: Any, mode: GenerationMode, api: Api) -> None:
    announced = DOCUMENT["paths"][operation.path][operation.method]["responses"]

    @hypothesis.settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=SLOW)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), nth=st.integers(0, 2 * JOBS))
    def ask(case: Any, nth: int) -> None:
        if nth < JOBS:
            know(case, api, nth, mode)
        key = {"Authorization": f"Bearer {api.key.secret}"}
        answer = case.call_and_validate(base_url=api.address, headers=key, checks=PROMISES, timeout=SECONDS)
        assert str(answer.status_code) in announced
        statuses.add(answer.status_code)

    statuses: set[int] = set()
    ask()
    assert statuses & WANTED[mode], "none of this went where it was meant to go"


def know(case: Any, api: Api, nth: int, mode: GenerationMode) -> None:
    """Let a case name what is there: of all the ids, people and images there are none would be found by chance."""
    there = {
        "job_id": api.jobs[nth],
        "post_id": api.released if nth % 2 else api.post,
        "session_id": api.session,
        "date": api.day,
        "version": 1,
        "schedule_id": api.schedule,
        "run_id": api.run,
        "token": api.token,
    }
    case.path_parameters.update({name: there[name] for name in case.path_parameters})
    if mode is GenerationMode.NEGATIVE:
        return
    if "Duly-User" in case.headers:
        case.headers["Duly-User"] = "anna"
    body = cast("dict[str, Any]", case.body if isinstance(cast("object", case.body), dict) else {})
    if "rule" in body:
        body["rule"] = "cron: 0 10 1 * *"
    if "job_run_id" in body:
        body |= {"job_run_id": api.run, "payload": {}}
    if "imagePath" in body:
        body["imagePath"] = api.images[nth % 2]
        case.headers["Duly-User"] = "bo"


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every verb of every path."""
    for path, verbs in DOCUMENT["paths"].items():
        for verb, about in verbs.items():
            yield f"{verb} {path}", about


@pytest.mark.parametrize(("name", "about"), list(operations()), ids=lambda part: part if isinstance(part, str) else "")
def test_every_route_says_what_it_is_who_may_use_it_and_how_it_may_refuse(name: str, about: dict[str, Any]) -> None:
    assert about["operationId"]
    assert about["summary"]
    if name in OPEN:
        return
    assert about["security"] == [{"key": []}]
    assert re.search(r"scope `(ledger|posts|ingest|scheduler):(read|write)`", about["description"])
    assert {"401", "403", "413", "500", "503", "400" if name == ENVELOPED else "422"} <= about["responses"].keys()
    is_for_somebody = name == PHOTO or about["tags"] in (["ingest"], ["scheduler"])  # and nobody may have this name
    assert ("404" in about["responses"]) == ("{" in name or is_for_somebody)
    for status, response in about["responses"].items():
        is_problem = status >= "400" and name != ENVELOPED
        kind = MEDIA_TYPE if is_problem else NOT_JSON.get(name, "application/json")
        assert list(response["content"]) == [kind]


def test_no_route_that_takes_a_post_finds_what_another_has_not_released(api: Api) -> None:
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
    with client_of(api.address, api.key.secret) as anna, client_of(api.address, api.key.secret) as other:
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


def test_every_code_of_the_document_is_one_of_the_tree() -> None:
    def tree(root: type[DulyError]) -> Iterator[type[DulyError]]:
        yield root
        for child in root.__subclasses__():
            yield from tree(child)

    for name, about in operations():
        statuses = {error.code: str(error.status) for error in tree(DulyError)}
        if name == ENVELOPED:
            statuses["INVALID_ARGUMENT"] = "400"
        for status, response in about["responses"].items():
            codes = [part for part in response["description"].split("`")[1::2] if part.isupper()]
            assert {statuses[code] for code in codes} <= {status}


def test_the_ids_of_operations_differ() -> None:
    ids = [about["operationId"] for _, about in operations()]
    assert len(ids) == len(set(ids))


def test_the_document_says_what_it_said() -> None:
    check_golden(GOLDEN, json.dumps(DOCUMENT, indent=2) + "\n")
