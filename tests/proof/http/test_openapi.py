"""The OpenAPI document is true: whatever is sent, nothing breaks, and every answer is one that it announces."""

from typing import Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks

from tests.fast.http.test_openapi import DOCUMENT, TESTER, photo
from tests.full.http.test_openapi import JOBS, Api, api
from tests.support.api import SECONDS

__all__ = ["api"]
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
