"""Ingest over HTTP: sessions with a payload or with images, days, and every error."""

import asyncio
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from psycopg.conninfo import make_conninfo

from duly.accounts.service import change_person
from duly.apps.ingest.canonical import MAX_ENTRIES, MAX_NAME_LENGTH
from duly.apps.ingest.reading import FixtureReader
from duly.apps.ingest.service import MAX_IMAGES
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.db.migrations import Names
from duly.http.problems import MEDIA_TYPE
from duly.http.request_limits import MAX_BODY_BYTES
from duly.launcher import ROOT
from duly.lease.work import Tuning
from duly.paging import encode_cursor
from duly.settings import load_settings
from duly.storage import ObjectStore
from duly.testing import TestDatabases, install_test_clock, move_clock
from duly.verify import check
from duly.worker.runner import Worker
from tests.support.api import api_of, as_owner, client_for, key_for, temporary_object_store
from tests.support.crashing_decoder import crash

NOWHERE = UUID(int=7)

Json = dict[str, Any]
Admin = psycopg.Connection[Any]
SESSIONS = "/v1/ingest/sessions"
DAY = "/v1/ingest/days/2026-02-10"
BOTH = ("ingest:read", "ingest:write")
SAMPLE = ROOT / "fixtures" / "sample_schedule.json"
PEOPLE = {"anna": 42, "bo": 43}
MORNING = {"start": "10:00", "end": "14:00", "title": "Cleaning", "location": "Billdal"}
SESSION_KEYS = {
    "id",
    "user_id",
    "state",
    "created_at",
    "closed_at",
    "error",
    "result",
    "starts",
    "locked_by",
    "locked_at",
}


class ApiEnvironment:
    """An API over a database with a test clock, the directory of its images, and people with API keys."""

    def __init__(self, admin: Admin, objects: ObjectStore, address: str, stack: ExitStack) -> None:
        self.admin = admin
        self.database = admin.info.dsn
        self.objects = objects
        self.address = address
        self.stack = stack

    def person(self, uid: str, scopes: Sequence[str] = BOTH) -> httpx2.Client:
        """Return a client with the key of a person, who may have a Telegram id."""
        secret = key_for(self.database, None, scopes, uid=uid, telegram_id=PEOPLE.get(uid)).secret
        return self.stack.enter_context(client_for(self.address, secret))

    def org(self, scopes: Sequence[str] = BOTH) -> httpx2.Client:
        """Return a client with the key of an org, without a person."""
        return self.stack.enter_context(client_for(self.address, key_for(self.database, "acme", scopes).secret))

    @property
    def images(self) -> dict[str, bytes]:
        """Return the stored objects by name."""
        root = getattr(self.objects.backend, "root", None)
        assert isinstance(root, Path)
        return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}

    def work(self, due: str = "given_at", file: Path = SAMPLE) -> int:
        """Run one cycle of a worker for sessions with a payload; returns how many it processed."""

        async def once() -> int:
            work = CaptureWork(FixtureReader(file), Tuning(), CaptureOptions(due=due))
            dsn = make_conninfo(self.database, user=Names().worker)
            return await Worker([work], load_settings(), dsn=dsn).run(once=True)

        return asyncio.run(once())

    def verify(self) -> None:
        """Check that all invariants hold."""
        assert check(self.admin, ("duly", "schedule_ingest")) == []


@contextmanager
def opened(database: str) -> Generator[ApiEnvironment, None, None]:
    """Serve an empty database."""
    with ExitStack() as stack, psycopg.connect(database, autocommit=True) as admin:
        install_test_clock(admin)
        objects = stack.enter_context(temporary_object_store())
        yield ApiEnvironment(admin, objects, stack.enter_context(api_of(database, objects)), stack)


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
    """Return a client of a person whose days are captured."""
    return env.person("anna")


@pytest.fixture(scope="module")
def shared_client(databases: TestDatabases, worker_id: str) -> Generator[httpx2.Client, None, None]:
    """Return a client in an environment shared by tests that change nothing."""
    with databases.clone(worker_id) as dsn, opened(dsn) as env:
        yield env.person("anna")


def day(*entries: Mapping[str, Any], on: str = "2026-02-10", **more: Any) -> Json:
    """Return the payload of a day."""
    return {"payload": {"schedule_date": on, "entries": list(entries), **more}}


def picture(image_format: str = "PNG", size: tuple[int, int] = (60, 40), **saved: Any) -> bytes:
    """Return a screenshot."""
    file = BytesIO()
    image = Image.linear_gradient("L").resize(size).convert("RGB")
    image.save(file, image_format, **saved)
    return file.getvalue()


def created(answer: httpx2.Response) -> Json:
    """Create a session."""
    assert answer.status_code == 201, answer.text
    body: Json = answer.json()
    assert body.keys() == SESSION_KEYS | {"images"}
    assert answer.headers["location"] == f"{SESSIONS}/{body['id']}"
    assert (body["state"], body["error"], body["result"], body["images"]) == ("pending", None, None, [])
    return body


def send(person: httpx2.Client, session: str, image: bytes, name: str = "day.png") -> httpx2.Response:
    """Upload an image to a session like a browser."""
    return person.post(f"{SESSIONS}/{session}/images", files={"file": (name, image, "image/png")})


def added(answer: httpx2.Response) -> Json:
    """Check that an image was accepted, and return it."""
    assert answer.status_code == 201, answer.text
    return answer.json()


def ok_body(answer: httpx2.Response) -> Json:
    """Check for status 200, and return the body."""
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json"), answer.text
    return answer.json()


def items(answer: httpx2.Response) -> list[Json]:
    """Return the items of the last page."""
    page = ok_body(answer)
    assert page["next"] is None
    return page["items"]


def problem(answer: httpx2.Response, status: int, code: str) -> str:
    """Check for a problem response, and return its detail."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, MEDIA_TYPE), answer.text
    assert answer.json()["code"] == code
    return answer.json()["detail"]


def test_sessions_are_listed_in_pages_newest_first(env: ApiEnvironment, anna: httpx2.Client) -> None:
    keys = [created(anna.post(SESSIONS, json=day(MORNING, on=f"2026-02-1{nth}")))["id"] for nth in range(5)]
    bo = env.person("bo")
    theirs = created(bo.post(SESSIONS))["id"]
    page = ok_body(anna.get(SESSIONS, params={"limit": 2}))
    assert [each["id"] for each in page["items"]] == keys[:2:-1]
    assert page["items"][0].keys() == SESSION_KEYS
    rest = items(anna.get(SESSIONS, params={"limit": 3, "next": page["next"]}))
    assert [each["id"] for each in rest] == keys[2::-1]
    assert [each["id"] for each in items(bo.get(SESSIONS))] == [theirs]


def test_pages_of_versions_events_messages_and_logs_list_each_item_once(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    for nth in range(6):
        created(anna.post(SESSIONS, json=day({**MORNING, "start": f"0{nth}:00"})))
        assert env.work() == 1
    (newest, *_) = ok_body(anna.get(SESSIONS))["items"]
    for path, key, expected in (
        (f"{DAY}/versions", "version", list(range(1, 7))),
        (f"{DAY}/events", "seq", list(range(1, 7))),
        (f"{DAY}/notifications", "notification_id", None),
        (f"{SESSIONS}/{newest['id']}/timeline", "seq", [1, 2, 3]),
    ):
        all_items = items(anna.get(path))
        found: list[Json] = []
        page: Json = {"next": None}
        while page["next"] or not found:
            page = ok_body(anna.get(path, params={"limit": 2, **({"next": page["next"]} if page["next"] else {})}))
            found += page["items"]
        assert found == all_items
        assert expected in (None, [each[key] for each in found])


def test_events_of_another_program_are_listed_first_and_none_is_skipped(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    key = created(anna.post(SESSIONS, json=day(MORNING)))["id"]
    assert env.work() == 1
    env.admin.execute(
        "insert into schedule_ingest.schedule_event (event_id, user_id, schedule_date, event_type,"
        " location_fingerprint, customer_fingerprint, old_value_hash, new_value_hash, new_value, source_session_id)"
        " select gen_random_uuid(), 42, '2026-02-10', 'shift_added', 'p' || n, 'c', 'o', 'n', '{}', %s"
        " from generate_series(1, 5) as n",
        [key],
    )
    page = ok_body(anna.get(f"{DAY}/events", params={"limit": 2}))
    rest = items(anna.get(f"{DAY}/events", params={"next": page["next"]}))
    assert [each["seq"] for each in (*page["items"], *rest)] == [None] * 5 + [1]
    assert len({each["event_id"] for each in (*page["items"], *rest)}) == 6


def test_ocr_worker_closes_an_idle_session(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS))["id"]
    added(send(anna, key, picture()))
    assert env.work("closed_at") == 0
    move_clock(env.admin, 26)
    assert env.work("closed_at") == 1
    assert ok_body(anna.get(f"{SESSIONS}/{key}"))["state"] == "done"


BOUNDARY = "b0undary"
HEADERS = b'Content-Disposition: form-data; name="file"; filename="day.png"\r\nContent-Type: image/png\r\n\r\n'


def form(*parts: bytes, end: bytes = b"--b0undary--\r\n") -> bytes:
    """Build a form of these parts, which include their headers."""
    return b"".join(b"--b0undary\r\n" + part + b"\r\n" for part in parts) + end


@pytest.mark.parametrize(
    ("image_format", "content", "message"),
    [
        ("image/png", picture(), "is not a form"),
        ("application/json", b"{}", "is not a form"),
        ("multipart/form-data", form(HEADERS + picture()), "is not a form"),
        ("multipart/mixed; boundary=b0undary", form(HEADERS + picture()), "is not a form"),
        (f"multipart/form-data; boundary={'x' * 71}", form(HEADERS + picture()), "is not a form"),
        ("multipart/form-data; boundary=other", form(HEADERS + picture()), "does not begin"),
        ("multipart/form-data; boundary=b0undary", b"", "does not begin"),
        ("multipart/form-data; boundary=b0undary", form(), "has no part"),
        ("multipart/form-data; boundary=b0undary", form(HEADERS + picture(), HEADERS + picture()), "several parts"),
        ("multipart/form-data; boundary=b0undary", form(HEADERS + picture(), end=b""), "ends in the middle"),
        ("multipart/form-data; boundary=b0undary", form(b"no headers"), "headers cannot be parsed"),
        ("multipart/form-data; boundary=b0undary", form(b"X: " + b"y" * 9000 + b"\r\n\r\n"), "cannot be parsed"),
        (
            "multipart/form-data; boundary=b0undary",
            form(HEADERS.replace(b'"file"', b'"photo"') + picture()),
            "not a file in the field file",
        ),
        (
            "multipart/form-data; boundary=b0undary",
            form(b'Content-Disposition: form-data; name="file"\r\n\r\ntext'),
            "not a file in the field file",
        ),
        ("multipart/form-data; boundary=b0undary", form(HEADERS), "not a readable image"),
        ("multipart/form-data; boundary=b0undary", form(HEADERS + b"GIF89a"), "not a readable image"),
        ("multipart/form-data; boundary=b0undary", form(HEADERS + picture()[:-40]), "not a readable image"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_upload_that_is_not_a_form_with_one_photograph_is_refused(
    image_format: str, content: bytes, message: str, shared_client: httpx2.Client
) -> None:
    key = created(shared_client.post(SESSIONS))["id"]
    answer = shared_client.post(f"{SESSIONS}/{key}/images", content=content, headers={"Content-Type": image_format})
    assert message in problem(answer, 422, "INVALID_ARGUMENT")
    assert ok_body(shared_client.get(f"{SESSIONS}/{key}"))["images"] == []


@pytest.mark.parametrize("before", [b"", b"a preamble\r\n"])
@pytest.mark.parametrize(
    "image_format", ["multipart/form-data; boundary=b0undary", 'Multipart/Form-Data; Boundary="b0undary"']
)
def test_form_is_parsed_in_every_valid_spelling(before: bytes, image_format: str, shared_client: httpx2.Client) -> None:
    key = created(shared_client.post(SESSIONS))["id"]
    content = before + form(HEADERS.replace(b"Content-D", b"content-d") + picture()) + b"an epilogue"
    added(shared_client.post(f"{SESSIONS}/{key}/images", content=content, headers={"Content-Type": image_format}))


def test_image_that_crashes_its_decoder_is_refused_and_the_api_continues(
    shared_client: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = created(shared_client.post(SESSIONS))["id"]
    with monkeypatch.context() as patched:
        patched.setattr("duly.apps.ingest.http.sessions.clean_screenshot", crash)
        assert "not a readable image" in problem(send(shared_client, key, picture()), 422, "INVALID_ARGUMENT")
    added(send(shared_client, key, picture()))


# Saying no ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({}, "schedule_date: must be a day"),
        ({"schedule_date": "10.2.2026"}, "schedule_date: must be a day"),
        ({"schedule_date": "1999-12-31"}, "schedule_date: must lie in the years"),
        ({"schedule_date": "2026-02-30"}, "schedule_date: must be a day"),
        ({"schedule_date": "2026-02-10", "entries": {}}, "entries: must be a list"),
        ({"schedule_date": "2026-02-10", "entries": ["x"]}, "entries[0]: must be an object"),
        ({"schedule_date": "2026-02-10", "entries": [{**MORNING, "end": "25:00"}]}, "entries[0].end: must be a time"),
        ({"schedule_date": "2026-02-10", "entries": [{**MORNING, "title": " "}]}, "entries[0].title: must be there"),
        (
            {"schedule_date": "2026-02-10", "entries": [{**MORNING, "location": "x" * (MAX_NAME_LENGTH + 1)}]},
            "entries[0].location: has 501 characters",
        ),
        ({"schedule_date": "2026-02-10", "entries": [MORNING] * (MAX_ENTRIES + 1)}, "at most 500"),
        ({"schedule_date": "2026-02-10", "note": "a\0b"}, "NUL"),
        ({"schedule_date": "2026-02-10", "note": "x" * 1_100_000}, "limit of 1048576 bytes"),
    ],
    ids=lambda part: ascii(part)[:40],
)
def test_invalid_day_payload_is_refused_with_its_path(
    payload: Json, message: str, shared_client: httpx2.Client
) -> None:
    before = ok_body(shared_client.get(SESSIONS, params={"limit": 1}))
    assert message in problem(shared_client.post(SESSIONS, json={"payload": payload}), 422, "INVALID_ARGUMENT")
    assert ok_body(shared_client.get(SESSIONS, params={"limit": 1})) == before


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b"7", b'{"payload": []}', b'{"payload": "x"}', b'{"pay_load": {}}', b"\xff", b"[" * 100_000],
)
def test_invalid_session_body_is_refused(content: bytes, shared_client: httpx2.Client) -> None:
    answer = shared_client.post(SESSIONS, content=content, headers={"Content-Type": "application/json"})
    problem(answer, 422, "INVALID_ARGUMENT")


def test_oversized_body_is_refused(shared_client: httpx2.Client) -> None:
    answer = shared_client.post(SESSIONS, content=json.dumps({"payload": {"x": "y" * MAX_BODY_BYTES}}))
    problem(answer, 413, "TOO_LARGE")


@pytest.mark.parametrize("body", [None, b"", b"{}", b'{"payload": null}'])
def test_session_without_a_payload_waits_for_images(body: bytes | None, shared_client: httpx2.Client) -> None:
    headers = {"Content-Type": "application/json"} if body else {}
    session = created(shared_client.post(SESSIONS, content=body, headers=headers))
    assert session["closed_at"] is None


@pytest.mark.parametrize(
    "day", ["x", "1", "20260210", "2026-2-10", "2026-02-30", "1999-12-31", "2200-01-01", "\uff12026-02-10"]
)
@pytest.mark.parametrize("what", ["", "/versions", "/versions/1", "/events", "/notifications"])
def test_invalid_date_in_the_path_is_refused(day: str, what: str, shared_client: httpx2.Client) -> None:
    message = problem(shared_client.get(f"/v1/ingest/days/{day}{what}"), 422, "INVALID_ARGUMENT")
    assert message.startswith("path.date: must ")


def test_unknown_day_is_not_found_and_its_lists_are_empty(shared_client: httpx2.Client) -> None:
    assert "nothing is known of 2031-05-05" in problem(
        shared_client.get("/v1/ingest/days/2031-05-05"), 404, "NOT_FOUND"
    )
    problem(shared_client.get("/v1/ingest/days/2031-05-05/versions/1"), 404, "NOT_FOUND")
    for version in ("0", "-1", "x", str(2**31)):
        problem(shared_client.get(f"/v1/ingest/days/2031-05-05/versions/{version}"), 422, "INVALID_ARGUMENT")
    for what in ("versions", "events", "notifications"):
        assert items(shared_client.get(f"/v1/ingest/days/2031-05-05/{what}")) == []


BROKEN_CURSORS = ["x", "!", encode_cursor(1, 2, 3, 4), encode_cursor("x", "y"), encode_cursor(), "a" * 600]
UNSTORABLE_CURSOR = encode_cursor("2026-01-01T00:00:00+00:00", "\0")


@pytest.mark.parametrize("cursor", [*BROKEN_CURSORS, UNSTORABLE_CURSOR])
@pytest.mark.parametrize("path", [SESSIONS, f"{DAY}/versions", f"{DAY}/events", f"{DAY}/notifications"])
def test_an_invalid_cursor_is_refused(cursor: str, path: str, shared_client: httpx2.Client) -> None:
    problem(shared_client.get(path, params={"next": cursor}), 422, "INVALID_ARGUMENT")


def test_only_an_administrator_may_act_for_another_user(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS))["id"]
    admin, org, bo = env.org(["admin"]), env.org(), env.person("bo")
    for_anna = {"Duly-User": "anna"}
    assert ok_body(admin.get(f"{SESSIONS}/{key}", headers=for_anna))["user_id"] == 42
    assert created(admin.post(SESSIONS, headers=for_anna))["user_id"] == 42
    assert "days belong to a person" in problem(admin.get(SESSIONS), 403, "FORBIDDEN")
    assert "days belong to a person" in problem(org.post(SESSIONS), 403, "FORBIDDEN")
    for caller in (org, bo):
        assert "for administrators" in problem(caller.get(SESSIONS, headers=for_anna), 403, "FORBIDDEN")
    message = problem(admin.get(SESSIONS, headers={"Duly-User": "unknown-user"}), 404, "NOT_FOUND")
    assert "duly people create 'unknown-user'" in message


def test_user_without_a_telegram_id_gets_the_command_that_sets_it(env: ApiEnvironment) -> None:
    cia = env.person("cia")
    for answer in (cia.get(SESSIONS), cia.post(SESSIONS), cia.get(DAY), cia.get(f"{SESSIONS}/{uuid4()}")):
        assert "duly people set cia --telegram-id N" in problem(answer, 403, "FORBIDDEN")
    as_owner(env.database, lambda pool: change_person(pool, "cia", telegram_id=77))
    assert created(cia.post(SESSIONS))["user_id"] == 77


def test_keyless_loopback_caller_must_send_the_duly_user_header(database: str) -> None:
    with opened(database) as env, client_for(env.address) as local_client:
        env.admin.execute("insert into duly.person (uid, telegram_id) values ('anna', 42)")
        assert created(local_client.post(SESSIONS, headers={"Duly-User": "anna"}))["user_id"] == 42
        problem(local_client.post(SESSIONS), 403, "FORBIDDEN")


EVENING = {"start": "18:00", "end": "20:00", "title": "Anna Svensson • Städning", "address": "Storgatan 12 B, Göteborg"}


def test_a_day_given_as_data_becomes_versions_events_and_messages(env: ApiEnvironment, anna: httpx2.Client) -> None:
    first = created(anna.post(SESSIONS, json=day(MORNING)))
    assert (first["user_id"], first["starts"]) == (42, 0)
    assert first["closed_at"] is not None
    assert env.work() == 1
    second = created(anna.post(SESSIONS, json=day({**MORNING, "start": "11:00"}, EVENING, source="app")))
    assert env.work() == 1
    seen = ok_body(anna.get(f"{SESSIONS}/{second['id']}"))
    assert (seen["state"], seen["error"], seen["starts"], seen["images"]) == ("done", None, 1, [])
    assert seen["result"] == {
        "outcome": "changed",
        "input": "given",
        "schedule_date": "2026-02-10",
        "version": 2,
        "events": 2,
        "notifications": 2,
    }
    known = ok_body(anna.get(DAY))
    assert (known["user_id"], known["schedule_date"], known["current_version"]) == (42, "2026-02-10", 2)
    assert [shift["start"] for shift in known["snapshot_payload"]] == ["11:00", "18:00"]
    assert known["source_session_id"] == second["id"]
    versions = items(anna.get(f"{DAY}/versions"))
    assert [(each["version"], each["session_id"]) for each in versions] == [(1, first["id"]), (2, second["id"])]
    assert versions[0].keys() == {"version", "session_id", "payload_hash", "created_at"}
    all_items = ok_body(anna.get(f"{DAY}/versions/2"))
    assert {**all_items, "payload": None} == {**versions[1], "payload": None}
    assert (all_items["payload"]["source"], len(all_items["payload"]["entries"])) == ("app", 2)
    events = items(anna.get(f"{DAY}/events"))
    assert [(each["seq"], each["event_type"], each["source_session_id"]) for each in events] == [
        (1, "shift_added", first["id"]),
        (2, "shift_time_changed", second["id"]),
        (3, "shift_added", second["id"]),
    ]
    assert (events[0]["old_value"], events[1]["old_value"]["start"], events[1]["new_value"]["start"]) == (
        None,
        "10:00",
        "11:00",
    )
    notifications = items(anna.get(f"{DAY}/notifications"))
    assert [each["message"] for each in notifications] == [
        "New shift on 2026-02-10: 10:00\N{EN DASH}14:00, Cleaning, Billdal.",
        "The 10:00 shift on 2026-02-10 now starts at 11:00.",
        "New shift on 2026-02-10: 18:00\N{EN DASH}20:00, Anna Svensson • Städning, Storgatan 12B, Göteborg.",
    ]
    assert {(each["status"], each["sent_at"]) for each in notifications} == {("pending", None)}
    assert [each["event_ids"] for each in notifications] == [[each["event_id"]] for each in events]
    log = items(anna.get(f"{SESSIONS}/{second['id']}/timeline"))
    assert [(each["seq"], each["prev_status"], each["next_status"]) for each in log] == [
        (1, None, "pending"),
        (2, "pending", "processing"),
        (3, "processing", "done"),
    ]
    env.verify()


def test_unchanged_day_creates_no_version_and_reports_unchanged(env: ApiEnvironment, anna: httpx2.Client) -> None:
    created(anna.post(SESSIONS, json=day(MORNING)))
    assert env.work() == 1
    last = created(anna.post(SESSIONS, json=day(MORNING)))
    assert env.work() == 1
    result = ok_body(anna.get(f"{SESSIONS}/{last['id']}"))["result"]
    assert (result["outcome"], result["version"], result["events"], result["notifications"]) == ("unchanged", 1, 0, 0)
    known = ok_body(anna.get(DAY))
    assert (known["current_version"], known["source_session_id"]) == (1, last["id"])
    assert len(items(anna.get(f"{DAY}/versions"))) == 1
    env.verify()


def test_names_of_maximum_length_are_processed(env: ApiEnvironment, anna: httpx2.Client) -> None:
    long = {"start": "10:00", "end": "14:00", **dict.fromkeys(("title", "location", "address"), "å" * MAX_NAME_LENGTH)}
    for entry in (long, {**long, "title": "ö" * MAX_NAME_LENGTH}, {**long, "location": "ä" * MAX_NAME_LENGTH}):
        key = created(anna.post(SESSIONS, json=day(entry)))["id"]
        assert env.work() == 1
        assert ok_body(anna.get(f"{SESSIONS}/{key}"))["state"] == "done"
    env.verify()


def test_images_are_accepted_in_order_and_cleaned_until_the_session_is_closed(
    env: ApiEnvironment, anna: httpx2.Client
) -> None:
    key = created(anna.post(SESSIONS))["id"]
    text = PngInfo()
    text.add_text("Comment", "SECRET")
    screen = picture(pnginfo=text)
    first = added(send(anna, key, screen))
    second = added(send(anna, key, picture("JPEG", comment=b"SECRET"), "day.jpg"))
    third = added(send(anna, key, picture("WEBP"), "../../etc/passwd"))
    assert first.keys() == {"id", "session_id", "sequence", "r2_key", "created_at"}
    assert [each["sequence"] for each in (first, second, third)] == [1, 2, 3]
    assert [each["r2_key"].rsplit(".", 1)[1] for each in (first, second, third)] == ["png", "jpg", "jpg"]
    kept = env.images
    assert set(kept) == {each["r2_key"] for each in (first, second, third)}
    assert all(name.startswith(f"screenshots/42/{key}/") for name in kept)
    assert not any(b"SECRET" in data for data in kept.values())
    with Image.open(BytesIO(kept[first["r2_key"]])) as one, Image.open(BytesIO(screen)) as other:
        assert one.format == "PNG"
        assert one.tobytes() == other.tobytes()
    seen = ok_body(anna.get(f"{SESSIONS}/{key}"))
    assert (seen["images"], seen["closed_at"], seen["state"]) == ([first, second, third], None, "pending")
    assert env.work() == 0  # it was not given as data
    closed = ok_body(anna.post(f"{SESSIONS}/{key}/close"))
    assert (closed["closed_at"] is not None, len(closed["images"])) == (True, 3)
    assert ok_body(anna.post(f"{SESSIONS}/{key}/close")) == closed
    assert "is closed and accepts no more images" in problem(send(anna, key, screen), 409, "ILLEGAL_TRANSITION")
    assert len(env.images) == 3
    assert env.work("closed_at") == 1  # but a worker with a file takes that
    assert ok_body(anna.get(f"{SESSIONS}/{key}"))["result"]["input"] == "fixture"
    assert "is done and accepts no more images" in problem(send(anna, key, screen), 409, "ILLEGAL_TRANSITION")
    assert ok_body(anna.post(f"{SESSIONS}/{key}/close"))["state"] == "done"
    env.verify()


def test_session_given_as_data_accepts_no_images(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS, json=day(MORNING)))["id"]
    assert "accepts no more images" in problem(send(anna, key, picture()), 409, "ILLEGAL_TRANSITION")
    assert env.images == {}


def test_session_accepts_at_most_max_images(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS))["id"]
    env.admin.execute(
        "insert into schedule_ingest.capture_image (session_id, sequence, r2_key)"
        " select %s, n, 'k' || n from generate_series(1, %s) as n",
        [key, MAX_IMAGES - 1],
    )
    assert added(send(anna, key, picture()))["sequence"] == MAX_IMAGES
    assert "the maximum; close it" in problem(send(anna, key, picture()), 422, "INVALID_ARGUMENT")
    assert len(env.images) == 1


def test_days_of_two_users_are_separate(env: ApiEnvironment, anna: httpx2.Client) -> None:
    bo = env.person("bo")
    for person, entry in ((anna, MORNING), (bo, EVENING)):
        created(person.post(SESSIONS, json=day(entry)))
    assert env.work() == 2
    for person, start in ((anna, "10:00"), (bo, "18:00")):
        known = ok_body(person.get(DAY))
        assert (known["current_version"], [each["start"] for each in known["snapshot_payload"]]) == (1, [start])
    env.verify()


def test_ingest_scopes_separate_reading_from_writing(env: ApiEnvironment, anna: httpx2.Client) -> None:
    key = created(anna.post(SESSIONS))["id"]
    read_client, brings, posts = (
        env.person("anna", ["ingest:read"]),
        env.person("anna", ["ingest:write"]),
        env.person("anna", ["posts:read", "posts:write"]),
    )
    ok_body(read_client.get(f"{SESSIONS}/{key}"))
    assert "lacks the scope ingest:write" in problem(read_client.post(SESSIONS), 403, "FORBIDDEN")
    created(brings.post(SESSIONS))
    assert "lacks the scope ingest:read" in problem(brings.get(f"{SESSIONS}/{key}"), 403, "FORBIDDEN")
    problem(posts.get(SESSIONS), 403, "FORBIDDEN")
    problem(posts.post(SESSIONS), 403, "FORBIDDEN")
    with client_for(env.address) as anonymous_client:
        problem(anonymous_client.get(SESSIONS), 401, "UNAUTHORIZED")


def test_session_response_contains_its_error(env: ApiEnvironment, anna: httpx2.Client, tmp_path: Path) -> None:
    key = created(anna.post(SESSIONS))["id"]
    added(send(anna, key, picture()))
    ok_body(anna.post(f"{SESSIONS}/{key}/close"))
    broken = tmp_path / "day.json"
    broken.write_text('{"schedule_date": "someday"}')
    assert env.work("closed_at", broken) == 1
    seen = ok_body(anna.get(f"{SESSIONS}/{key}"))
    assert (seen["state"], seen["result"]) == ("failed", None)
    assert seen["error"].startswith("schedule_date: must be a day such as 2026-02-10")
    problem(anna.get(DAY), 404, "NOT_FOUND")
    env.verify()
