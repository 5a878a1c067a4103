"""The OpenAPI document is correct: no request causes an internal error, and every response is documented."""

import json
import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import strategies as st
from PIL import Image
from schemathesis.checks import load_all_checks

from duly.errors import DulyError
from duly.http.app import build_app
from duly.http.problems import MEDIA_TYPE
from duly.settings import Settings
from tests.support.golden import GOLDEN, check_golden

DOCUMENT_FILE = GOLDEN / "openapi.json"
DOCUMENT = build_app(Settings(), "postgresql://nowhere/at_all", cast("Any", None)).openapi()
ENVELOPED = "post /v1/createPostIntent"  # which has the statuses and the bodies of its contract
PHOTO = "post /v1/posts/images"
OPEN = {"get /healthz", "get /readyz", "get /ics/{token}"}  # of the last the address is the key
NOT_JSON = {"get /metrics": "text/plain", "get /v1/posts/{post_id}/image": "image/jpeg"}


def photo() -> bytes:
    """Return a photo."""
    file = BytesIO()
    Image.new("RGB", (3, 2)).save(file, "JPEG")
    return file.getvalue()


TESTER = cast("Any", schemathesis)  # its generic types have more parameters than it fills in
TESTER.openapi.format("binary", st.just(photo()) | st.binary(max_size=100))
for kind in DOCUMENT["paths"]["/v1/posts/images"]["post"]["requestBody"]["content"]:
    TESTER.openapi.media_type(kind, st.just(photo()) | st.binary(max_size=100))

load_all_checks()


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every operation."""
    for path, verbs in DOCUMENT["paths"].items():
        for verb, about in verbs.items():
            yield f"{verb} {path}", about


def faults_of(name: str, about: dict[str, Any]) -> Iterator[str]:
    """List what the documentation of a route lacks or has wrong."""
    for key in ("operationId", "summary"):
        if not about.get(key):
            yield f"{name}: no {key}"
    if name in OPEN:
        return
    if about.get("security") != [{"key": []}]:
        yield f"{name}: security is {about.get('security')}, expected [{{'key': []}}]"
    if not re.search(r"scope `(ledger|posts|ingest|scheduler):(read|write)`", about.get("description", "")):
        yield f"{name}: the description names no scope: {about.get('description')!r}"
    required = {"401", "403", "413", "500", "503", "400" if name == ENVELOPED else "422"}
    for status in sorted(required - about["responses"].keys()):
        yield f"{name}: no response {status}"
    needs_a_user = name == PHOTO or about.get("tags") in (["ingest"], ["scheduler"])  # who may not be there
    needs_404 = "{" in name or needs_a_user
    if ("404" in about["responses"]) != needs_404:
        yield f"{name}: {'no response 404' if needs_404 else 'a response 404, which it cannot give'}"
    for status, response in about["responses"].items():
        is_problem = status >= "400" and name != ENVELOPED
        kind = MEDIA_TYPE if is_problem else NOT_JSON.get(name, "application/json")
        if (found := list(response.get("content", ()))) != [kind]:
            yield f"{name}: response {status} has {found}, expected [{kind!r}]"


def test_every_route_documents_its_purpose_scopes_and_errors() -> None:
    offenders = [fault for name, about in operations() for fault in faults_of(name, about)]
    assert not offenders, "\n".join(offenders)


def test_every_documented_error_code_is_in_the_error_tree() -> None:
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


def test_operation_ids_are_unique() -> None:
    ids = [about["operationId"] for _, about in operations()]
    assert len(ids) == len(set(ids))


@pytest.mark.golden
def test_openapi_document_matches_the_golden_file() -> None:
    check_golden(DOCUMENT_FILE, json.dumps(DOCUMENT, indent=2) + "\n")
