"""Posts over HTTP: the contract, repeated requests, images, the feed, and every error."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.accounts.model import new_secret
from duly.apps.posts.legacy import import_legacy
from duly.apps.posts.model import MAX_CAPTION_LENGTH
from duly.apps.posts.rules import RulesAnalyzer
from duly.apps.posts.work import PostWork
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import Unavailable
from duly.http.problems import MEDIA_TYPE
from duly.lease.work import Tuning
from duly.paging import encode_cursor
from duly.settings import load_settings
from duly.storage import ObjectStore
from duly.testing import TestDatabases, install_test_clock, move_clock
from duly.testing.clock import read_clock
from duly.verify import check
from duly.worker.runner import Worker
from tests.support.api import api_of, as_owner, client_for, key_for, temporary_object_store
from tests.support.crashing_decoder import crash

Json = dict[str, Any]
Admin = psycopg.Connection[Any]
INTENT = "/v1/createPostIntent"
BOTH = ("posts:read", "posts:write")
NOWHERE = UUID(int=7)
AS_JSON = {"Content-Type": "application/json"}
HOURS = 3600.0


class ApiEnvironment:
    """An API over a database whose clock is set to noon, the directory of its images, and people with API keys."""

    def __init__(self, admin: Admin, objects: ObjectStore, address: str, stack: ExitStack) -> None:
        self.admin = admin
        self.database = admin.info.dsn
        self.objects = objects
        self.address = address
        self.stack = stack

    def person(self, uid: str, scopes: Sequence[str] = BOTH, org: str | None = None) -> httpx2.Client:
        """Return a client with the key of a person."""
        secret = key_for(self.database, org, scopes, uid=uid).secret
        return self.stack.enter_context(client_for(self.address, secret))

    def org(self, scopes: Sequence[str] = BOTH) -> httpx2.Client:
        """Return a client with the key of an org, without a person."""
        return self.stack.enter_context(client_for(self.address, key_for(self.database, "acme", scopes).secret))

    def anonymous(self, secret: str | None = None) -> httpx2.Client:
        """Return a client without a key, or with a wrong one."""
        return self.stack.enter_context(client_for(self.address, secret))

    @property
    def images(self) -> set[str]:
        """Return the names of the stored images."""
        root = root_of(self.objects)
        return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}

    def count(self, table: str) -> int:
        """Count the rows of a table."""
        ((rows,),) = self.admin.execute(sql.SQL("select count(*) from posts.{}").format(sql.Identifier(table)))
        return rows

    def release(self) -> int:
        """Advance the clock by six hours, and run one cycle of a worker."""
        move_clock(self.admin, 6 * HOURS + 1)
        return release_due(self.database)

    def bring(self, *documents: Json) -> int:
        """Import legacy documents; returns how many are new."""
        lines = [json.dumps(document).encode() for document in documents]
        done = as_owner(self.database, lambda pool: import_legacy(pool, lines))
        assert done.bad_lines == []
        return done.added


def root_of(objects: ObjectStore) -> Path:
    """Return the directory of an object store."""
    root = getattr(objects.backend, "root", None)
    assert isinstance(root, Path)
    return root


def release_due(database: str) -> int:
    """Run one cycle of a worker; returns how many posts it processed."""

    async def once() -> int:
        work = PostWork(RulesAnalyzer(), Tuning())
        return await Worker([work], load_settings(), dsn=make_conninfo(database, user=Names().worker)).run(once=True)

    return asyncio.run(once())


def set_time(admin: Admin, clock: str) -> None:
    """Set the clock of the database to a time of its current UTC day."""
    day = "date_trunc('day', duly.clock(), 'UTC')"
    ((seconds,),) = admin.execute(
        f"select extract(epoch from ({day} + %s::interval - duly.clock()))::float8".encode(), [clock]
    )
    move_clock(admin, seconds)


@contextmanager
def opened(database: str, objects: ObjectStore | None = None) -> Generator[ApiEnvironment, None, None]:
    """Serve an empty database."""
    with ExitStack() as stack, psycopg.connect(database, autocommit=True) as admin:
        install_test_clock(admin)
        set_time(admin, "12:00")
        kept = objects or stack.enter_context(temporary_object_store())
        yield ApiEnvironment(admin, kept, stack.enter_context(api_of(database, kept)), stack)


@pytest.fixture
def database(movable_database: str) -> str:
    """Return a database with a test clock."""
    return movable_database


@pytest.fixture
def env(database: str) -> Generator[ApiEnvironment, None, None]:
    """Return an environment for this test."""
    with opened(database) as env:
        yield env


@pytest.fixture
def anna(env: ApiEnvironment) -> httpx2.Client:
    """Return a client of a person who posts."""
    return env.person("anna")


@pytest.fixture(scope="module")
def shared_client(databases: TestDatabases, worker_id: str) -> Generator[httpx2.Client, None, None]:
    """Return a client of an author, in an environment shared by tests that create nothing."""
    with databases.clone(worker_id) as dsn, opened(dsn) as env:
        yield env.person("anna")


def photo(kind: str = "JPEG", **saved: Any) -> bytes:
    """Return a photo."""
    file = BytesIO()
    Image.new("RGB", (60, 40), (250, 140, 60)).save(file, kind, **saved)
    return file.getvalue()


PHOTO = photo()


def upload(person: httpx2.Client, image: bytes = PHOTO, headers: Mapping[str, str] | None = None) -> str:
    """Upload an image, and return its path."""
    answer = person.post("/v1/posts/images", content=image, headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.json().keys() == {"imagePath"}
    return answer.json()["imagePath"]


def body_of(person: httpx2.Client, caption: str = "My day") -> Json:
    """Build the request for a post, with an uploaded image."""
    return {"imagePath": upload(person), "caption": caption, "requestId": str(uuid4())}


def error_message(answer: httpx2.Response, status: int, code: str, post: str | None = None) -> str:
    """Check for a failure in the envelope, and return its message."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json"), answer.text
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert ("retry-after" in answer.headers) == (status in (429, 503))
    body: Json = answer.json()
    assert body.keys() == {"success", "error"}
    assert body["success"] is False
    expected = {"code", "message", "status"}
    assert body["error"].keys() == (expected | {"postId"} if post else expected)
    assert (body["error"]["code"], body["error"].get("postId")) == (code, post)
    assert body["error"]["message"]
    return body["error"]["message"]


def problem(answer: httpx2.Response, status: int, code: str) -> str:
    """Check for a problem response, and return its detail."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE), answer.text
    assert answer.json()["code"] == code
    return answer.json()["detail"]


def items(answer: httpx2.Response) -> list[Json]:
    """Return the posts of a page."""
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def test_request_id_accepts_every_spelling_of_a_uuid(anna: httpx2.Client) -> None:
    body = body_of(anna)
    first = anna.post(INTENT, json=body)
    for spelled in (body["requestId"].upper(), body["requestId"].replace("-", ""), f"urn:uuid:{body['requestId']}"):
        again = anna.post(INTENT, json={**body, "requestId": spelled})
        assert (again.content, again.headers["duly-replayed"]) == (first.content, "true")


# Saying no, in the envelope -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"requestId": "x"}, "requestId"),
        ({"requestId": ""}, "requestId"),
        ({"requestId": 7}, "requestId"),
        ({"requestId": None}, "requestId"),
        ({"caption": None}, "caption"),
        ({"caption": 7}, "caption"),
        ({"caption": ["My day"]}, "caption"),
        ({"caption": "x" * (MAX_CAPTION_LENGTH + 1)}, "caption"),
        ({"caption": "a\0b"}, "caption"),
        ({"caption": "a\ud800b"}, "caption"),
        ({"imagePath": None}, "imagePath"),
        ({"imagePath": 7}, "imagePath"),
        ({"imagePath": ""}, "imagePath"),
        ({"imagePath": "x" * 100_000}, "imagePath"),
        ({"status": "RELEASED"}, "status: Extra inputs"),
        ({"authorId": "bo"}, "authorId: Extra inputs"),
        ({"": 1}, "Extra inputs"),
        ({"\ud800": 1}, "body: "),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_invalid_input_is_refused_with_400_and_the_field(
    change: Json, words: str, shared_client: httpx2.Client
) -> None:
    body = {"imagePath": f"temp/{uuid4()}.jpg", "caption": "My day", "requestId": str(uuid4())}
    answer = shared_client.post(INTENT, content=json.dumps({**body, **change}), headers=AS_JSON)
    assert words in error_message(answer, 400, "INVALID_ARGUMENT")


def test_the_request_id_is_a_header_or_a_field_of_the_body(anna: httpx2.Client) -> None:
    body = body_of(anna)
    headers = {"Idempotency-Key": body["requestId"]}
    without = {name: value for name, value in body.items() if name != "requestId"}
    first = anna.post(INTENT, json=without, headers=headers)
    assert created_data(anna.post(INTENT, json=body)) == created_data(first)
    differing = anna.post(INTENT, json=body, headers={"Idempotency-Key": str(uuid4())})
    assert "differ" in error_message(differing, 400, "INVALID_ARGUMENT")
    assert "Idempotency-Key" in error_message(
        anna.post(INTENT, json=body, headers={"Idempotency-Key": "x"}), 400, "INVALID_ARGUMENT"
    )


@pytest.mark.parametrize("field", ["imagePath", "caption", "requestId"])
def test_missing_field_is_refused_and_named(field: str, shared_client: httpx2.Client) -> None:
    body = {"imagePath": f"temp/{uuid4()}.jpg", "caption": "My day", "requestId": str(uuid4())}
    answer = shared_client.post(INTENT, json={name: value for name, value in body.items() if name != field})
    assert error_message(answer, 400, "INVALID_ARGUMENT").startswith(f"{field}: ")


@pytest.mark.parametrize(
    "path",
    [
        "temp/../secret.jpg",
        f"temp/../temp/{NOWHERE}.jpg",
        "../../etc/passwd",
        "/etc/passwd",
        f"/temp/{NOWHERE}.jpg",
        "temp/%2e%2e/secret.jpg",
        f"temp//{NOWHERE}.jpg",
        f"temp/{NOWHERE}.png",
        f"temp/{NOWHERE}.jpg/",
        f"temp/{NOWHERE}.jpg\n",
        f"temp/{NOWHERE}.jpg\0",
        f"temp/{str(NOWHERE)[:-1]}F.jpg",
        f"temp\\{NOWHERE}.jpg",
        f"posts/00/{NOWHERE}.jpg",
        f"https://example.org/temp/{NOWHERE}.jpg",
    ],
    ids=ascii,
)
def test_image_path_not_issued_by_an_upload_is_refused(path: str, shared_client: httpx2.Client) -> None:
    answer = shared_client.post(INTENT, json={"imagePath": path, "caption": "My day", "requestId": str(uuid4())})
    assert error_message(answer, 400, "INVALID_ARGUMENT").startswith("imagePath: must be the name that the upload")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "required"),
        (b"{", "JSON"),
        (b"{'caption': 'My day'}", "JSON"),
        (b"\xff\xfe\xfd", "JSON"),
        (b'{"caption": "\xff"}', "JSON"),
        (b'{"caption": ' + b"[" * 100_000, "JSON"),
        (b'{"caption": ' + b"9" * 5000 + b"}", "JSON"),
        (b"[]", "JSON object"),
        (b'"My day"', "JSON object"),
        (b"null", "JSON object"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_body_that_is_not_a_json_object_is_refused(content: bytes, words: str, shared_client: httpx2.Client) -> None:
    assert words in error_message(shared_client.post(INTENT, content=content, headers=AS_JSON), 400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_body_without_a_json_content_type_is_refused(kind: str | None, shared_client: httpx2.Client) -> None:
    answer = shared_client.post(
        INTENT, content=b'{"caption": "My day"}', headers={"Content-Type": kind} if kind else {}
    )
    assert "Content-Type: application/json" in error_message(answer, 400, "INVALID_ARGUMENT")


def test_request_without_a_valid_key_is_unauthorized(env: ApiEnvironment) -> None:
    env.person("anna")
    assert "API key missing" in error_message(env.anonymous().post(INTENT, content=b"{"), 401, "UNAUTHORIZED")
    assert "unknown, revoked" in error_message(env.anonymous(new_secret()).post(INTENT, json={}), 401, "UNAUTHORIZED")


def test_key_without_the_read_scope_is_forbidden(env: ApiEnvironment) -> None:
    writer = env.person("anna", ["posts:write"])
    for path in ("", f"/{NOWHERE}", f"/{NOWHERE}/image"):
        assert "--scope posts:read" in problem(writer.get(f"/v1/posts{path}"), 403, "FORBIDDEN")
    problem(writer.get("/v1/slo"), 403, "FORBIDDEN")


def bomb(side: int = 7000) -> bytes:
    """Return a small file that claims 49 million pixels."""
    file = BytesIO()
    Image.new("1", (side, side)).save(file, "PNG")
    assert len(file.getvalue()) < 100_000
    return file.getvalue()


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (lambda: b"", "not a readable image"),
        (lambda: b"My day was fine, thank you.", "not a readable image"),
        (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a readable image"),
        (lambda: PHOTO[: len(PHOTO) // 2], "not a readable image"),
        (lambda: photo("GIF"), "not a readable image"),
        (bomb, "million pixels"),
    ],
    ids=["nothing", "text", "svg", "half", "gif", "bomb"],
)
def test_upload_that_is_not_a_supported_photograph_is_refused(
    image: Any, words: str, shared_client: httpx2.Client
) -> None:
    for kind in ("image/jpeg", "text/plain"):
        answer = shared_client.post("/v1/posts/images", content=image(), headers={"Content-Type": kind})
        assert words in problem(answer, 422, "INVALID_ARGUMENT")


def test_form_upload_is_refused_with_a_hint_to_send_the_file_itself(shared_client: httpx2.Client) -> None:
    answer = shared_client.post("/v1/posts/images", files={"image": ("x.jpg", PHOTO, "image/jpeg")})
    assert "send the file itself: curl --data-binary @x.jpg" in problem(answer, 422, "INVALID_ARGUMENT")


def test_photograph_that_crashes_its_decoder_is_refused_and_the_api_continues(
    shared_client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("duly.apps.posts.http.routes.clean_photo", crash)
        problem(
            shared_client.post("/v1/posts/images", content=PHOTO, headers={"Content-Type": "image/jpeg"}),
            422,
            "INVALID_ARGUMENT",
        )
    assert shared_client.post("/v1/posts/images", content=PHOTO, headers={"Content-Type": "image/jpeg"}).is_success


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("limit=0", "query.limit"),
        ("limit=201", "query.limit"),
        ("author=", "query.author"),
        ("author=*", "query.author"),
        ("author=two%20words", "query.author"),
        ("author=%00", "query.author"),
        ("status=PENDING", "query.status"),
        ("next=", "query.next"),
        ("next=aaaa", "invalid cursor"),
        ("next=WzEsMl0", "invalid cursor"),
    ],
)
def test_invalid_query_parameter_is_refused(query: str, words: str, shared_client: httpx2.Client) -> None:
    assert words in problem(shared_client.get(f"/v1/posts?{query}"), 422, "INVALID_ARGUMENT")


@pytest.mark.parametrize("seconds", ["", "+00:00:00.000001", "+23:59", "-23:59"])
@pytest.mark.parametrize("year", ["0001", "2030", "9999"])
def test_unissued_cursor_gives_an_empty_page(year: str, seconds: str, shared_client: httpx2.Client) -> None:
    cursor = encode_cursor(f"{year}-12-31T00:00:00{seconds}", str(NOWHERE))
    for author in ({}, {"author": "anna"}):
        assert shared_client.get("/v1/posts", params={"next": cursor, **author}).json() == {"items": [], "next": None}


def test_invalid_post_id_is_refused_and_an_unknown_one_not_found(shared_client: httpx2.Client) -> None:
    for verb, rest in (("GET", ""), ("GET", "/image"), ("PATCH", "")):
        problem(
            shared_client.request(verb, f"/v1/posts/nonsense{rest}", json={"caption": "x"}), 422, "INVALID_ARGUMENT"
        )
        answer = shared_client.request(verb, f"/v1/posts/{NOWHERE}{rest}", json={"caption": "x"})
        assert str(NOWHERE) in problem(answer, 404, "NOT_FOUND")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"caption": None},
        {"caption": 7},
        {"caption": "x" * (MAX_CAPTION_LENGTH + 1)},
        {"caption": "a\0b"},
        {"caption": "a\ud800b"},
        {"caption": "x", "status": "RELEASED"},
        [],
    ],
    ids=lambda body: ascii(body)[:40],
)
def test_caption_that_cannot_be_stored_is_refused(body: object, shared_client: httpx2.Client) -> None:
    answer = shared_client.patch(f"/v1/posts/{NOWHERE}", content=json.dumps(body), headers=AS_JSON)
    problem(answer, 422, "INVALID_ARGUMENT")


POST_KEYS = {
    "postId",
    "authorId",
    "status",
    "caption",
    "imageUrl",
    "createdAt",
    "updatedAt",
    "releaseTime",
    "releasedAt",
    "dailyKey",
    "version",
    "requestId",
    "leaseOwner",
    "leaseExpiresAt",
    "processAttempts",
    "ai",
    "aiError",
}


def test_intent_creates_a_post_and_responds_as_the_contract_defines(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    answer = anna.post(INTENT, json=body)
    data = created_data(answer)
    assert "duly-replayed" not in answer.headers
    shown = anna.get(f"/v1/posts/{data['postId']}").json()
    assert shown.keys() == POST_KEYS
    assert (shown["authorId"], shown["status"], shown["caption"]) == ("anna", "PENDING", "My day")
    assert shown["releaseTime"] == data["releaseTime"]
    created = datetime.fromisoformat(shown["createdAt"])
    assert datetime.fromisoformat(shown["releaseTime"]) - created == timedelta(hours=6)
    assert shown["dailyKey"] == f"anna_{created:%Y%m%d}"
    assert (shown["version"], shown["processAttempts"], shown["ai"], shown["aiError"]) == (1, 0, None, None)
    ((lock, post),) = env.admin.execute("select id, post_id from posts.daily_locks").fetchall()
    assert (lock, str(post)) == (f"{shown['dailyKey']}_UTC", data["postId"])
    assert check(env.admin, ("duly", "posts")) == []


def test_a_caption_may_be_empty_long_and_in_any_script(env: ApiEnvironment) -> None:
    for uid, caption in (("anna", ""), ("bo", "ö" * MAX_CAPTION_LENGTH), ("cia", "日本 👩‍👩‍👧 \t\n'\"\\")):
        person = env.person(uid)
        data = created_data(person.post(INTENT, json=body_of(person, caption)))
        assert person.get(f"/v1/posts/{data['postId']}").json()["caption"] == caption


def test_unknown_missing_or_another_users_image_is_refused(env: ApiEnvironment, anna: httpx2.Client) -> None:
    theirs, gone = upload(env.person("bo")), upload(anna)
    (root_of(env.objects) / gone).unlink()
    request = str(uuid4())
    for path in (f"temp/{NOWHERE}.jpg", theirs, gone):
        answer = anna.post(INTENT, json={"imagePath": path, "caption": "My day", "requestId": request})
        assert f"there is no image {path} of yours" in error_message(answer, 400, "INVALID_ARGUMENT")
    assert [env.count(table) for table in ("posts", "daily_locks", "idempotency_keys")] == [0, 0, 0]
    created_data(anna.post(INTENT, json={**body_of(anna), "requestId": request}))  # a refusal uses up no request id


def test_key_without_the_write_scope_or_a_user_may_not_post(env: ApiEnvironment) -> None:
    anna, reader, org = env.person("anna"), env.person("bo", ["posts:read"]), env.org()
    body = body_of(anna)
    assert "--scope posts:write" in error_message(reader.post(INTENT, json=body), 403, "FORBIDDEN")
    assert "--user UID" in error_message(org.post(INTENT, json=body), 403, "FORBIDDEN")
    for other in (anna, org):
        answer = other.post(INTENT, json=body, headers={"Duly-User": "bo"})
        assert "administrators" in error_message(answer, 403, "FORBIDDEN")
    for denied in (reader, org):
        problem(denied.post("/v1/posts/images", content=PHOTO), 403, "FORBIDDEN")
        problem(denied.patch(f"/v1/posts/{NOWHERE}", json={"caption": "x"}), 403, "FORBIDDEN")
    created_data(anna.post(INTENT, json=body, headers={"Duly-User": "anna"}))  # which says what the key says


def test_second_post_of_the_day_is_refused_with_the_id_of_the_first(env: ApiEnvironment, anna: httpx2.Client) -> None:
    first = created_data(anna.post(INTENT, json=body_of(anna)))
    for body in (body_of(anna), {**body_of(anna), "imagePath": f"temp/{NOWHERE}.jpg"}):
        error_message(anna.post(INTENT, json=body), 409, "ALREADY_POSTED", first["postId"])
    bo = env.person("bo")
    created_data(bo.post(INTENT, json=body_of(bo)))
    assert env.count("posts") == env.count("daily_locks") == 2


def test_request_id_used_for_another_request_is_refused(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    created_data(anna.post(INTENT, json=body))
    for change in ({"caption": "Another"}, {"imagePath": upload(anna)}):
        assert body["requestId"] in error_message(anna.post(INTENT, json={**body, **change}), 409, "REQUEST_ID_REUSED")
    bo = env.person("bo")
    created_data(bo.post(INTENT, json={**body_of(bo), "requestId": body["requestId"]}))  # every author has their own


def test_rate_limit_per_user_is_reported_with_retry_after(env: ApiEnvironment, anna: httpx2.Client) -> None:
    seen: Counter[int] = Counter()
    answer = anna.post(INTENT, json={})
    while answer.status_code != 429 and seen.total() < 1000:
        seen[answer.status_code] += 1
        answer = anna.post(INTENT, json={})
    assert "120" in error_message(answer, 429, "RATE_LIMITED")
    assert int(answer.headers["retry-after"]) >= 1
    assert seen[400] >= 120
    assert set(seen) == {400}
    problem(anna.post("/v1/posts/images", content=b"x"), 429, "RATE_LIMITED")
    assert anna.get("/v1/posts").status_code == 200  # looking is free
    bo = env.person("bo")
    created_data(bo.post(INTENT, json=body_of(bo)))


def test_unexpected_error_is_reported_without_internals_and_can_be_retried(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    body, function = body_of(anna), "posts.create_intent(text, uuid, bytea, text, text, boolean)"
    env.admin.execute(f"revoke execute on function {function} from duly_api".encode())
    words = error_message(anna.post(INTENT, json=body), 500, "UNEXPECTED")
    assert "create_intent" not in words
    assert "permission" not in words
    env.admin.execute(f"grant execute on function {function} to duly_api".encode())
    created_data(anna.post(INTENT, json=body))


def test_repeated_intent_is_replayed_for_a_month_even_after_release(env: ApiEnvironment, anna: httpx2.Client) -> None:
    set_time(env.admin, "23:59:50")
    body = body_of(anna)
    first = anna.post(INTENT, json=body)
    day = read_clock(env.admin).date()

    def again() -> None:
        answer = anna.post(INTENT, json=body)
        assert (answer.status_code, answer.content) == (200, first.content)
        assert answer.headers["duly-replayed"] == "true"

    again()
    move_clock(env.admin, 20)
    assert read_clock(env.admin).date() > day
    again()
    second = anna.post(INTENT, json=body_of(anna))  # the new day has a post of its own
    assert created_data(second)["postId"] != created_data(first)["postId"]
    again()
    assert env.release() == 2
    assert anna.get(f"/v1/posts/{created_data(first)['postId']}").json()["status"] == "RELEASED"
    again()
    move_clock(env.admin, 29 * 24 * HOURS)
    again()
    assert env.count("posts") == env.count("daily_locks") == 2
    assert check(env.admin, ("duly", "posts")) == []


class UnremovableObjects(ObjectStore):
    """An object store whose deletions fail."""

    async def remove(self, names: Sequence[str]) -> None:
        """Raise Unavailable."""
        raise Unavailable(f"cannot remove {names} now")


def test_intent_succeeds_even_if_its_upload_cannot_be_removed(database: str) -> None:
    with temporary_object_store() as objects, opened(database, UnremovableObjects(objects.backend)) as env:
        anna = env.person("anna")
        body = body_of(anna)
        first = anna.post(INTENT, json=body)
        created_data(first)
        assert anna.post(INTENT, json=body).content == first.content
        assert body["imagePath"] in env.images  # until its day is over


def images_with_metadata() -> dict[str, bytes]:
    """Yield photos in every format, with location metadata."""
    exif = Image.Exif()
    exif[0x010F] = "Camera Inc."
    exif.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 46.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    notes = PngInfo()
    notes.add_text("Location", "59.3293 N")
    return {
        "image/jpeg": photo("JPEG", exif=exif, comment=b"at home"),
        "image/png": photo("PNG", exif=exif, pnginfo=notes),
        "image/webp": photo("WEBP", exif=exif),
    }


def test_upload_of_any_image_format_becomes_a_jpeg_without_metadata(env: ApiEnvironment) -> None:
    for nth, (kind, image) in enumerate(images_with_metadata().items()):
        assert Image.open(BytesIO(image)).getexif().get_ifd(0x8825), "the test's own photograph has no place in it"
        person = env.person(f"person-{nth}")
        path = upload(person, image, {"Content-Type": kind})
        assert re.fullmatch(r"temp/[0-9a-f-]{36}\.jpg", path)
        data = created_data(person.post(INTENT, json={"imagePath": path, "caption": kind, "requestId": str(uuid4())}))
        answer = person.get(f"/v1/posts/{data['postId']}/image")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/jpeg")
        shown = Image.open(BytesIO(answer.content))
        assert (shown.format, shown.size) == ("JPEG", (60, 40))
        assert not shown.getexif()
        assert not shown.info.keys() & {"exif", "comment", "Location"}
        for trace in (b"Exif", b"Camera", b"at home", b"59.3293"):
            assert trace not in answer.content


def test_image_of_a_post_is_moved_to_its_permanent_path(env: ApiEnvironment, anna: httpx2.Client) -> None:
    body = body_of(anna)
    assert env.images == {body["imagePath"]}
    name = body["imagePath"].removeprefix("temp/")
    data = created_data(anna.post(INTENT, json=body))
    assert env.images == {f"posts/{name[:2]}/{name}"}
    assert anna.get(f"/v1/posts/{data['postId']}").json()["imageUrl"] == f"posts/{name[:2]}/{name}"
    created_data(anna.post(INTENT, json=body))
    assert env.images == {f"posts/{name[:2]}/{name}"}


def test_unused_upload_is_purged_after_a_day_and_a_used_one_is_kept(env: ApiEnvironment, anna: httpx2.Client) -> None:
    used, unused = body_of(anna), upload(anna)
    created_data(anna.post(INTENT, json=used))
    error_message(
        anna.post(INTENT, json={**body_of(anna), "imagePath": unused}), 409, "ALREADY_POSTED", posts_of(env)[0]
    )
    move_clock(env.admin, 24 * HOURS + 1)

    async def purge() -> None:
        async with await connect(make_conninfo(env.database, user=Names().worker)) as worker:
            await PostWork(RulesAnalyzer(), Tuning(), objects=env.objects).maintain(worker)

    asyncio.run(purge())
    assert len(env.images) == 1
    assert env.images == {name for (name,) in env.admin.execute("select image_url from posts.posts")}


def posts_of(env: ApiEnvironment) -> list[str]:
    """Return the ids of all posts, in the order of creation."""
    return [str(key) for (key,) in env.admin.execute("select id from posts.posts order by created_at, id")]


def test_pending_post_is_visible_to_its_author_only_and_a_released_one_to_all(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    bo, org = env.person("bo"), env.org(["posts:read"])
    post = created_data(anna.post(INTENT, json=body_of(anna)))["postId"]
    path = f"/v1/posts/{post}"
    assert anna.get(path).json()["status"] == "PENDING"
    assert [each["postId"] for each in items(anna.get("/v1/posts?author=anna"))] == [post]
    assert items(anna.get("/v1/posts")) == []  # the feed has what is released, one's own too
    for other in (bo, org):
        for rest in ("", "/image"):
            found, nothing = other.get(path + rest), other.get(f"/v1/posts/{NOWHERE}{rest}")
            problem(found, 404, "NOT_FOUND")
            assert found.text == nothing.text.replace(str(NOWHERE), post)
        assert items(other.get("/v1/posts")) == items(other.get("/v1/posts?author=anna")) == []
    assert env.release() == 1
    for viewer in (anna, bo, org):
        shown = viewer.get(path).json()
        assert shown.keys() == POST_KEYS
        assert (shown["status"], shown["processAttempts"]) == ("RELEASED", 1)
        assert shown["version"] >= 3
        assert shown["releasedAt"] > shown["releaseTime"]
        assert {"mood", "music", "reasoning"} <= shown["ai"].keys()
        assert viewer.get(f"{path}/image").status_code == 200
        assert items(viewer.get("/v1/posts")) == items(viewer.get("/v1/posts?author=anna")) == [shown]
    assert items(bo.get("/v1/posts?author=bo")) == []


def test_imported_legacy_documents_appear_in_the_feed_in_order(env: ApiEnvironment, anna: httpx2.Client) -> None:
    now = read_clock(env.admin)
    days = {name: (now + timedelta(days=days)).isoformat() for name, days in (("old", -700), ("new", -1), ("ahead", 1))}
    old = {"id": "a1", "userId": "bo", "timestamp": days["old"], "content": "long ago", "url": "https://old/1.jpg"}
    new = {"id": "a2", "userId": "anna", "timestamp": days["new"], "content": "yesterday", "imageUrl": "my pictures/1"}
    ahead = {"id": "a3", "userId": "cia", "timestamp": days["ahead"]}
    assert env.bring(new, ahead, old) == 3
    post = created_data(anna.post(INTENT, json=body_of(anna, "today")))["postId"]
    assert env.release() == 1
    feed = items(anna.get("/v1/posts"))
    assert [each["caption"] for each in feed] == ["", "today", "yesterday", "long ago"]
    assert [each["authorId"] for each in feed] == ["cia", "anna", "anna", "bo"]
    assert {each["status"] for each in feed} == {"RELEASED"}
    assert [each["postId"] for each in items(anna.get("/v1/posts?author=anna"))] == [post, feed[2]["postId"]]
    first = feed[3]
    assert first.keys() == POST_KEYS
    assert datetime.fromisoformat(first["createdAt"]) == now - timedelta(days=700)
    assert {first[name] for name in ("releaseTime", "releasedAt", "dailyKey", "ai", "aiError")} == {None}
    for nth in (0, 2, 3):  # without an image, with one of a name that nothing has here, and one that is elsewhere
        problem(anna.get(f"/v1/posts/{feed[nth]['postId']}/image"), 404, "NOT_FOUND")


def test_feed_pages_are_stable_while_new_posts_arrive(env: ApiEnvironment, anna: httpx2.Client) -> None:
    at = read_clock(env.admin) - timedelta(days=30)
    times = [at + timedelta(minutes=nth // 3) for nth in range(23)]  # three of each instant: ids part them
    documents = [{"id": str(uuid4()), "userId": "anna", "timestamp": time.isoformat()} for time in times]
    env.bring(*documents)
    expected = [each["postId"] for each in items(anna.get("/v1/posts"))]
    assert set(expected) == {document["id"] for document in documents}
    for path in ("/v1/posts", "/v1/posts?author=anna"):
        seen: list[str] = []
        cursor, pages = None, 0
        while pages == 0 or cursor:
            page = anna.get(path, params={"limit": 5} | ({"next": cursor} if cursor else {})).json()
            assert page.keys() == {"items", "next"}
            assert len(page["items"]) <= 5
            seen += [each["postId"] for each in page["items"]]
            cursor, pages = page["next"], pages + 1
            env.bring({"userId": "anna", "timestamp": read_clock(env.admin).isoformat()})  # at the front
        assert seen[-len(expected) :] == expected
        assert len(seen) == len(set(seen))
        assert pages >= 5


def test_author_may_edit_the_caption_until_the_post_is_claimed(env: ApiEnvironment, anna: httpx2.Client) -> None:
    bo = env.person("bo")
    post = created_data(anna.post(INTENT, json=body_of(anna)))["postId"]
    path = f"/v1/posts/{post}"
    edited = anna.patch(path, json={"caption": "My evening"})
    assert (edited.status_code, edited.json()["caption"], edited.json()["version"]) == (200, "My evening", 2)
    assert edited.json() == anna.get(path).json()
    assert edited.json()["updatedAt"] > edited.json()["createdAt"]
    for other in (bo.patch(path, json={"caption": "Mine!"}), bo.patch(f"/v1/posts/{NOWHERE}", json={"caption": "x"})):
        problem(other, 404, "NOT_FOUND")
    assert env.release() == 1
    released = anna.get(path).json()
    assert "is RELEASED" in problem(anna.patch(path, json={"caption": "Late"}), 409, "ILLEGAL_TRANSITION")
    problem(bo.patch(path, json={"caption": "Mine!"}), 404, "NOT_FOUND")
    assert anna.get(path).json() == released
    assert released["caption"] == "My evening"
    assert check(env.admin, ("duly", "posts")) == []


def test_caption_of_a_post_in_processing_cannot_be_edited(env: ApiEnvironment, anna: httpx2.Client) -> None:
    post = created_data(anna.post(INTENT, json=body_of(anna)))["postId"]
    move_clock(env.admin, 6 * HOURS + 1)
    env.admin.execute(
        "update posts.posts set status = 'PROCESSING', lease_owner = 'w/1', process_attempts = 1,"
        " lease_expires_at = duly.clock() + interval '1 minute'"
    )
    assert "is PROCESSING" in problem(anna.patch(f"/v1/posts/{post}", json={"caption": "x"}), 409, "ILLEGAL_TRANSITION")


def test_administrator_posts_and_reads_for_the_user_in_the_header(env: ApiEnvironment) -> None:
    bo = env.person("bo")
    root, org = env.person("root", ["admin"]), env.org(["admin"])
    for admin, uid in ((root, "anna"), (org, "cia")):
        env.person(uid)
        behalf = {"Duly-User": uid}
        path = upload(admin, headers=behalf)
        body = {"imagePath": path, "caption": "My day", "requestId": str(uuid4())}
        assert "of yours" in error_message(bo.post(INTENT, json=body), 400, "INVALID_ARGUMENT")
        post = created_data(admin.post(INTENT, json=body, headers=behalf))["postId"]
        assert admin.get(f"/v1/posts/{post}", headers=behalf).json()["authorId"] == uid
        problem(admin.get(f"/v1/posts/{post}"), 404, "NOT_FOUND")  # without a person it is not visible yet
        assert admin.patch(f"/v1/posts/{post}", json={"caption": "x"}, headers=behalf).status_code == 200
        assert [each["postId"] for each in items(admin.get(f"/v1/posts?author={uid}", headers=behalf))] == [post]
    created_data(root.post(INTENT, json=body_of(root)))  # and for themselves, where the key is a person's
    error_message(org.post(INTENT, json=body), 403, "FORBIDDEN")


def test_duly_user_header_of_an_unknown_user_is_refused(env: ApiEnvironment, anna: httpx2.Client) -> None:
    root = env.person("root", ["admin"])
    body, unknown = body_of(anna), {"Duly-User": "unknown-user"}
    answer = root.post("/v1/posts/images", content=PHOTO, headers=unknown)
    assert "duly people create unknown-user" in problem(answer, 422, "INVALID_ARGUMENT")
    assert "unknown-user" in error_message(root.post(INTENT, json=body, headers=unknown), 400, "INVALID_ARGUMENT")
    for bad in ("two words", "*", "-x", "x" * 129):
        assert "Duly-User" in error_message(
            root.post(INTENT, json=body, headers={"Duly-User": bad}), 400, "INVALID_ARGUMENT"
        )
        problem(root.get("/v1/posts", headers={"Duly-User": bad}), 422, "INVALID_ARGUMENT")
    problem(root.get("/v1/posts", headers=unknown), 422, "INVALID_ARGUMENT")


def test_without_keys_a_loopback_request_posts_for_the_user_in_the_header(env: ApiEnvironment) -> None:
    env.admin.execute("insert into duly.person (uid) values ('anna')")
    here = env.anonymous()
    error_message(here.post(INTENT, json={"caption": "x"}), 403, "FORBIDDEN")
    anna = {"Duly-User": "anna"}
    body = {"imagePath": upload(here, headers=anna), "caption": "My day", "requestId": str(uuid4())}
    first = here.post(INTENT, json=body, headers=anna)
    again = here.post(INTENT, json=body, headers=anna)
    assert (created_data(first), again.content) == (created_data(again), first.content)
    problem(here.get(f"/v1/posts/{created_data(first)['postId']}"), 404, "NOT_FOUND")
    assert here.get(f"/v1/posts/{created_data(first)['postId']}", headers=anna).json()["authorId"] == "anna"


def test_service_level_objectives_are_listed_with_their_error_budgets(env: ApiEnvironment, anna: httpx2.Client) -> None:
    none, late, stuck = anna.get("/v1/slo").json()
    expected = {"name", "promise", "is_met", "measured", "target", "events", "bad", "budget_left", "burn_rates"}
    assert none.keys() == late.keys() == stuck.keys() == expected
    assert [each["name"] for each in (none, late, stuck)] == ["intents", "lag", "stuck"]
    assert (none["measured"], none["is_met"], none["budget_left"]) == (None, True, None)
    env.admin.execute(
        "insert into posts.intent_minutes select date_trunc('minute', duly.clock(), 'UTC') - at, outcome, intents from"
        " (values ('CREATED', 900, interval '0'), ('REPLAYED', 90, '0'), ('UNAVAILABLE', 9, '2 hours'),"
        " ('UNEXPECTED', 1, '4 days'), ('INVALID_ARGUMENT', 500, '0')) as v (outcome, intents, at)"
    )
    created_data(anna.post(INTENT, json=body_of(anna)))
    move_clock(env.admin, 60)
    assert env.release() == 1
    intents, lag, stuck = anna.get("/v1/slo").json()
    assert (intents["events"], intents["bad"], intents["measured"], intents["is_met"]) == (1000, 10, 0.99, False)
    assert intents["budget_left"] == -1.0  # ten failed where five may
    rates = intents["burn_rates"]
    assert rates.keys() == {"1h", "6h", "3d", "30d"}
    assert (rates["30d"], rates["1h"]) == (2.0, None)  # by now the good ones are more than six hours old
    assert (lag["events"], lag["bad"], lag["is_met"]) == (1, 0, True)
    assert 60 < lag["measured"] < 120
    assert (stuck["bad"], stuck["is_met"]) == (0, True)
    assert env.org(["posts:read"]).get("/v1/slo").status_code == 200


def created_data(answer: httpx2.Response) -> Json:
    """Check a created post against the contract."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    body: Json = answer.json()
    assert body.keys() == {"success", "data"}
    assert body["success"] is True
    assert list(body["data"]) == ["postId", "status", "releaseTime"]
    assert body["data"]["status"] == "PENDING"
    assert str(UUID(body["data"]["postId"])) == body["data"]["postId"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body["data"]["releaseTime"])
    return body["data"]


def test_full_disk_is_reported_without_the_path_of_the_store(
    env: ApiEnvironment, anna: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("duly.storage.directory.sync", fail)
    answer = anna.post("/v1/posts/images", content=PHOTO)
    assert answer.status_code == 503
    assert str(root_of(env.objects)) not in answer.text
    assert "No space left on device" in answer.text
