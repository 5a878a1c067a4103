"""The contract's section 2.1 in the form of Firebase's callable functions; fields of a post; the header Duly-User."""

import json
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from duly.apps.posts.model import MAX_CAPTION_LENGTH
from duly.testing import move_clock
from tests.fast.http.test_posts import (
    AS_JSON,
    INTENT,
    ApiEnvironment,
    Json,
    anna,
    body_of,
    created_data,
    database,
    env,
    error_message,
    problem,
    shared_client,
    upload,
)

__all__ = ["anna", "database", "env", "shared_client"]
PRIVATE = {"requestId", "leaseOwner", "leaseExpiresAt"}


def result(answer: httpx2.Response) -> Json:
    """Return the result of a callable function."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    body: Json = answer.json()
    assert list(body) == ["result"]
    return body["result"]


def callable_error(answer: httpx2.Response, status: int, canonical: str, code: str) -> Json:
    """Check for an error in the form of callable functions."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
    body: Json = answer.json()
    assert list(body) == ["error"]
    error: Json = body["error"]
    assert error.keys() == {"status", "message", "details"}
    assert (error["status"], error["details"]["code"]) == (canonical, code)
    assert error["message"]
    return error


# createPostIntent (Callable) ------------------------------------------------------------------------------------------


def test_callable_request_gets_the_contracts_response_as_its_result(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    first = anna.post(INTENT, json={"data": body})
    assert result(first).keys() == {"success", "data"}
    assert result(first)["data"]["status"] == "PENDING"
    again = anna.post(INTENT, json={"data": body})
    assert (again.content, again.headers["duly-replayed"]) == (first.content, "true")
    plain = anna.post(INTENT, json=body)  # the same request, in the other form
    assert (created_data(plain), plain.headers["duly-replayed"]) == (result(first)["data"], "true")
    assert env.count("posts") == 1


def test_already_posted_is_reported_as_a_callable_error(anna: httpx2.Client) -> None:
    post = result(anna.post(INTENT, json={"data": body_of(anna)}))["data"]["postId"]
    error = callable_error(anna.post(INTENT, json={"data": body_of(anna)}), 409, "ALREADY_EXISTS", "ALREADY_POSTED")
    assert error["details"]["postId"] == post
    error_message(anna.post(INTENT, json=body_of(anna)), 409, "ALREADY_POSTED", post)


@pytest.mark.parametrize(
    ("body", "expected_text"),
    [
        ({"data": {}}, "data.imagePath: "),
        ({"data": {"imagePath": 7, "caption": "x", "requestId": str(uuid4())}}, "data.imagePath: "),
        (
            {"data": {"imagePath": "x", "caption": "x" * (MAX_CAPTION_LENGTH + 1), "requestId": str(uuid4())}},
            "data.caption: ",
        ),
        (
            {"data": {"imagePath": "../x", "caption": "x", "requestId": str(uuid4())}},
            "imagePath: must be the name that the upload",
        ),
        ({"data": None}, "data: "),
        ({"data": []}, "data: "),
        ({"data": {}, "more": 1}, "data.imagePath: "),
        (
            {"data": {"imagePath": "x", "caption": "x", "requestId": str(uuid4())}, "context": {}},
            "context: Extra inputs",
        ),
        (
            {"data": {"imagePath": "x", "caption": "x", "requestId": str(uuid4()), "status": "RELEASED"}},
            "data.status: Extra inputs",
        ),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_invalid_input_is_reported_as_a_callable_error(
    body: Any, expected_text: str, shared_client: httpx2.Client
) -> None:
    answer = shared_client.post(INTENT, content=json.dumps(body), headers=AS_JSON)
    error = callable_error(answer, 400, "INVALID_ARGUMENT", "INVALID_ARGUMENT")
    assert error["message"].startswith(expected_text)


def test_refusal_before_the_body_is_read_has_a_callable_status(env: ApiEnvironment) -> None:
    env.person("anna")
    answer = env.anonymous().post(INTENT, json={"data": {}})
    error_message(answer, 401, "UNAUTHORIZED")
    assert answer.json()["error"]["status"] == "UNAUTHENTICATED"
    answer = env.person("bo", ["posts:read"]).post(INTENT, json={"data": {}})
    error_message(answer, 403, "FORBIDDEN")
    assert answer.json()["error"]["status"] == "PERMISSION_DENIED"


# 1.2 `posts` schema: requestId, leaseOwner, leaseExpiresAt ------------------------------------------------------------


def test_an_author_sees_the_request_and_the_lease_of_their_post_without_the_token(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    body = body_of(anna)
    post = created_data(anna.post(INTENT, json=body))["postId"]
    shown = anna.get(f"/v1/posts/{post}").json()
    assert {name: shown[name] for name in PRIVATE} == {
        "requestId": body["requestId"],
        "leaseOwner": None,
        "leaseExpiresAt": None,
    }
    token = "A" * 22
    move_clock(env.admin, 6 * 3600 + 1)
    env.admin.execute(
        "update posts.posts set status = 'PROCESSING', lease_owner = %s, process_attempts = 1,"
        " lease_expires_at = duly.clock() + interval '1 minute'",
        [f"worker-13832/{token}"],
    )
    answer = anna.get(f"/v1/posts/{post}")
    assert answer.json()["leaseOwner"] == "worker-13832"
    assert answer.json()["leaseExpiresAt"].endswith("Z")
    assert token not in answer.text
    (mine,) = anna.get("/v1/posts?author=anna").json()["items"]
    assert mine == answer.json()
    assert token not in anna.get("/v1/posts?author=anna").text


def test_other_users_do_not_see_the_request_id_of_a_post(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    post = created_data(anna.post(INTENT, json=body))["postId"]
    assert env.release() == 1
    bo, org = env.person("bo"), env.org(["posts:read"])
    for other in (bo, org):
        shown = [other.get(f"/v1/posts/{post}").json()]
        shown += other.get("/v1/posts").json()["items"] + other.get("/v1/posts?author=anna").json()["items"]
        assert [{each[name] for name in PRIVATE} for each in shown] == [{None}] * 3
    root = env.org(["admin"])
    for mine in (anna, root):
        shown = [mine.get(f"/v1/posts/{post}").json()]
        shown += mine.get("/v1/posts").json()["items"] + mine.get("/v1/posts?author=anna").json()["items"]
        assert [each["requestId"] for each in shown] == [body["requestId"]] * 3


# Duly-User ------------------------------------------------------------------------------------------------------------


def test_an_unknown_duly_user_is_named_with_its_header(env: ApiEnvironment, anna: httpx2.Client) -> None:
    root, behalf = env.org(["admin"]), {"Duly-User": "unknown-user"}
    expected_text = error_message(root.post(INTENT, json=body_of(anna), headers=behalf), 400, "INVALID_ARGUMENT")
    assert expected_text.startswith("Duly-User: unknown-user: no person has this uid; ")
    assert "duly people create unknown-user" in expected_text
    for answer in (
        root.post("/v1/posts/images", content=b"x", headers=behalf),
        root.get("/v1/posts", headers=behalf),
        root.get(f"/v1/posts/{uuid4()}", headers=behalf),
        root.patch(f"/v1/posts/{uuid4()}", json={"caption": "x"}, headers=behalf),
    ):
        assert "Duly-User: unknown-user" in problem(answer, 422, "INVALID_ARGUMENT")
    assert upload(root, headers={"Duly-User": "anna"})
