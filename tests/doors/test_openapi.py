"""The OpenAPI document is true: whatever is sent, nothing breaks, and every answer is one that it announces."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import hypothesis
import psycopg
import pytest
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

from duly.api.app import build_app
from duly.api.problems import MEDIA_TYPE
from duly.errors import DulyError
from duly.people import NewKey
from duly.testing import TestDatabases
from tests.support.api import SECONDS, api_on, key_for
from tests.support.golden import check_golden

GOLDEN = Path(__file__).parent.parent / "golden" / "openapi.json"
DOCUMENT = build_app("postgresql://nowhere/at_all", cast("Any", None)).openapi()
TESTER = cast("Any", schemathesis)  # its generic types have more parameters than it fills in
OPERATIONS = [each.ok() for each in TESTER.openapi.from_dict(DOCUMENT).get_all_operations()]
CASES = [
    (each, mode)
    for each in OPERATIONS
    for mode in GenerationMode
    if mode is GenerationMode.POSITIVE
    or [*each.iter_parameters(), *each.body]  # what takes nothing takes nothing wrong
]
EXAMPLES = 30
WANTED = {GenerationMode.POSITIVE: {200, 201, 409}, GenerationMode.NEGATIVE: {422}}
JOBS = 8
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
    """An API, a key to it, and jobs that can be found with it."""

    address: str
    key: NewKey
    jobs: list[str]


@pytest.fixture(scope="module")
def api(databases: TestDatabases, worker_id: str) -> Generator[Api, None, None]:
    """An API over jobs of which some wait, some run and some are dead letters."""
    with databases.clone(worker_id) as dsn, psycopg.connect(dsn, autocommit=True) as admin:
        key = key_for(dsn, "acme")
        asked = "select (ledger.enqueue(org => %s, type => 'work')).id::text from generate_series(1, %s)"
        jobs = [key for (key,) in admin.execute(asked, [key.key.org_id, JOBS])]
        held = (
            "status = 'running', starts = 1, lease_owner = 'w/1', lease_expires_at = duly.clock() + interval '1 hour'"
        )
        failed = "status = 'failed', lease_expires_at = null, last_error_code = 'OOPS', last_error_message = 'because'"
        for change, first in ((held, 2), (failed, 4), ("status = 'dead_letter', lease_owner = null", 4)):
            admin.execute(f"update ledger.job set {change} where id = any (%s::uuid[])".encode(), [jobs[first:]])
        with api_on(dsn) as address:
            yield Api(address, key, jobs)


@pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module"
)  # what draws here imports something that does, once
@pytest.mark.parametrize(("operation", "mode"), CASES, ids=[f"{each.label} {mode.value}" for each, mode in CASES])
def test_every_answer_is_one_that_the_document_announces(operation: Any, mode: GenerationMode, api: Api) -> None:
    @hypothesis.settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=SLOW)
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), job=st.integers(0, 2 * JOBS))
    def ask(case: Any, job: int) -> None:
        if "job_id" in case.path_parameters and job < JOBS:
            case.path_parameters["job_id"] = api.jobs[job]  # of all the ids there are none would be found by chance
        key = {"Authorization": f"Bearer {api.key.secret}"}
        answer = case.call_and_validate(base_url=api.address, headers=key, checks=PROMISES, timeout=SECONDS)
        statuses.add(answer.status_code)

    statuses: set[int] = set()
    ask()
    assert statuses & WANTED[mode], "none of this went where it was meant to go"


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every verb of every path."""
    for path, verbs in DOCUMENT["paths"].items():
        for verb, about in verbs.items():
            yield f"{verb} {path}", about


@pytest.mark.parametrize(("name", "about"), list(operations()), ids=lambda part: part if isinstance(part, str) else "")
def test_every_route_says_what_it_is_who_may_use_it_and_how_it_may_refuse(name: str, about: dict[str, Any]) -> None:
    assert about["operationId"]
    assert about["summary"]
    if "/v1/" not in name:
        return
    assert about["security"] == [{"key": []}]
    assert "scope `ledger:" in about["description"]
    assert {"401", "403", "413", "422", "500", "503"} <= about["responses"].keys()
    assert ("404" in about["responses"]) == ("{" in name)
    for status, response in about["responses"].items():
        assert list(response["content"]) == [MEDIA_TYPE if status >= "400" else "application/json"]


def test_every_code_of_the_document_is_one_of_the_tree() -> None:
    def tree(root: type[DulyError]) -> Iterator[type[DulyError]]:
        yield root
        for child in root.__subclasses__():
            yield from tree(child)

    statuses = {error.code: str(error.status) for error in tree(DulyError)}
    for _, about in operations():
        for status, response in about["responses"].items():
            codes = [part for part in response["description"].split("`")[1::2] if part.isupper()]
            assert {statuses[code] for code in codes} <= {status}


def test_the_ids_of_operations_differ() -> None:
    ids = [about["operationId"] for _, about in operations()]
    assert len(ids) == len(set(ids))


def test_the_document_says_what_it_said() -> None:
    check_golden(GOLDEN, json.dumps(DOCUMENT, indent=2) + "\n")
