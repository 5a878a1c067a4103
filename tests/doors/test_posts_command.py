"""`duly posts` and `duly slo` through their doors: make, look, change, release, repair, import; are promises kept?"""

import json
import re
from collections.abc import Generator, Iterable
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from PIL import Image
from psycopg import sql
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.errors import (
    AlreadyPosted,
    DulyError,
    IllegalMove,
    InvalidArgument,
    NotFound,
    NotMigrated,
    RequestIdReused,
    TooLarge,
)
from duly.objects.photo import LARGEST_PHOTO_BYTES
from duly.posts.legacy import BATCH, LONGEST_LINE
from duly.posts.model import LONGEST_CAPTION
from duly.testing import install_test_clock, move_clock
from duly.testing.clock import read_clock
from duly.verify import check
from tests.support.door import Door
from tests.support.locks import wait_until_blocked

Json = dict[str, Any]
Admin = psycopg.Connection[Any]
HOURS = 3600.0
POST = {
    "id",
    "author_id",
    "status",
    "release_time",
    "created_at",
    "updated_at",
    "daily_key",
    "version",
    "process_attempts",
    "ai",
    "ai_error",
    "caption",
    "image_url",
    "released_at",
}


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    """The test's own hand, in a database whose clock stands at noon."""
    with psycopg.connect(database, autocommit=True) as connection:
        install_test_clock(connection)
        noon = "date_trunc('day', duly.clock(), 'UTC') + interval '12 hours'"
        ((seconds,),) = connection.execute(f"select extract(epoch from ({noon} - duly.clock()))::float8".encode())
        move_clock(connection, seconds)
        yield connection


@pytest.fixture
def door(admin: Admin, tmp_path: Path) -> Door:
    return Door(admin.info.dsn, tmp_path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A photograph on a disk."""
    file = BytesIO()
    Image.new("RGB", (60, 40), (250, 140, 60)).save(file, "PNG")
    path = tmp_path / "sunset.png"
    path.write_bytes(file.getvalue())
    return path


def know(admin: Admin, *uids: str) -> None:
    """Make people."""
    for uid in uids:
        admin.execute('insert into "user".users (uid) values (%s)', [uid])


def count(admin: Admin, table: str) -> int:
    """How many rows a table of posts has."""
    ((rows,),) = admin.execute(sql.SQL("select count(*) from posts.{}").format(sql.Identifier(table)))
    return rows


# From nothing to a released post --------------------------------------------------------------------------------------


def test_a_post_is_made_shown_changed_and_released(admin: Admin, door: Door, image: Path) -> None:
    assert "created" in door.say("users", "create", "anna")
    made = door.tell("posts", "create", image, "--user", "anna", "--caption", "My day")
    assert made.keys() == {"outcome", "postId", "status", "releaseTime"}
    assert (made["outcome"], made["status"]) == ("created", "PENDING")
    key = made["postId"]
    shown = door.tell("posts", "show", key)
    assert shown.keys() == POST
    assert (shown["id"], shown["author_id"], shown["caption"], shown["version"]) == (key, "anna", "My day", 1)
    assert shown["created_at"].endswith("+00:00")
    assert (door.directory / "objects" / shown["image_url"]).read_bytes().startswith(b"\xff\xd8")
    text = dict(line.split(maxsplit=1) for line in door.say("posts", "show", key).splitlines())
    assert (text["id"], text["status"], text["caption"]) == (key, "PENDING", "My day")
    assert "ai" not in text
    edited = door.tell("posts", "edit", key, "--user", "anna", "--caption", "My evening")
    assert (edited["caption"], edited["version"]) == ("My evening", 2)
    assert door.process("posts", "release").stdout == "released  0\n"
    move_clock(admin, 6 * HOURS + 1)
    released = door.process("posts", "release", "--json")
    assert (released.returncode, json.loads(released.stdout)) == (0, {"released": 1})
    assert door.process("posts", "release").stdout == "released  0\n"
    shown = door.tell("posts", "show", key)
    assert (shown["status"], shown["process_attempts"], shown["ai_error"]) == ("RELEASED", 1, None)
    assert {"mood", "music", "reasoning"} <= shown["ai"].keys()
    log = door.tell("posts", "timeline", key)
    assert [(each["prev_status"], each["next_status"]) for each in log] == [
        (None, "PENDING"),
        ("PENDING", "PENDING"),
        ("PENDING", "PROCESSING"),
        ("PROCESSING", "RELEASED"),
    ]
    assert [each["seq"] for each in log] == [1, 2, 3, 4]
    assert log[2]["actor"] == log[3]["actor"]
    head, first, *_ = door.say("posts", "timeline", key).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    assert first.split()[4:6] == ["-", "PENDING"]
    assert check(admin, ("duly", "posts")) == []


def test_text_says_what_was_made_and_when_it_is_to_be_released(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna")
    said = door.say("posts", "create", image, "--user", "anna")
    assert re.fullmatch(r"created   [0-9a-f-]{36}  PENDING, to be released at 20\S+Z\n", said)
    shown = door.tell("posts", "show", said.split()[1])
    assert shown["caption"] == ""


def test_more_posts_than_a_worker_takes_at_once_are_all_released(admin: Admin, door: Door, tmp_path: Path) -> None:
    at = read_clock(admin).isoformat()
    rows = 130
    lines = [{"authorId": f"a-{nth}", "createdAt": at, "status": "PENDING", "caption": "x"} for nth in range(rows)]
    assert door.tell("posts", "import-legacy", write(tmp_path, lines))["added"] == rows
    move_clock(admin, 6 * HOURS + 1)
    assert json.loads(door.process("posts", "release", "--json").stdout) == {"released": rows}
    assert check(admin, ("duly", "posts")) == []


# Asking twice ---------------------------------------------------------------------------------------------------------


def test_the_same_request_makes_one_post_and_another_is_refused(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna", "bo")
    request = uuid4()
    words = ["posts", "create", image, "--user", "anna", "--request-id", request]
    first = door.tell(*words, "--caption", "My day")
    again = door.tell(*words, "--caption", "My day")
    assert {**first, "outcome": "existing"} == again
    assert door.say(*words, "--caption", "My day").startswith(f"existing  {first['postId']}")
    assert isinstance(door.refuse(*words, "--caption", "Another"), RequestIdReused)
    other = door.directory / "other.png"
    with Image.open(image) as shown:
        shown.transpose(Image.Transpose.ROTATE_90).save(other)
    other_image = ["posts", "create", other, "--user", "anna", "--request-id", request, "--caption", "My day"]
    assert isinstance(door.refuse(*other_image), RequestIdReused)
    refusal = door.refuse("posts", "create", image, "--user", "anna")
    assert isinstance(refusal, AlreadyPosted)
    assert str(refusal.post_id) == first["postId"]
    assert door.tell("posts", "create", image, "--user", "bo", "--request-id", request)["outcome"] == "created"
    move_clock(admin, 25 * HOURS)
    assert door.tell(*words, "--caption", "My day") == again
    assert count(admin, "posts") == 2
    assert check(admin, ("duly", "posts")) == []


@pytest.mark.parametrize(
    ("words", "error", "place"),
    [
        (["--user", "nobody-here"], NotFound, r"there is nobody called nobody-here; make them with: duly users create"),
        (["--user", "two words"], InvalidArgument, r"'two words' is no uid"),
        (["--user", "\udcff"], InvalidArgument, r"'\\udcff' is no uid"),
        (["--user", "anna", "--caption", "x" * (LONGEST_CAPTION + 1)], InvalidArgument, r"caption: has 2201"),
        (["--user", "anna", "--caption", "\udcff"], InvalidArgument, r"caption: holds a NUL or half a character"),
    ],
    ids=["nobody", "words", "bytes", "long", "half"],
)
def test_what_cannot_become_a_post_is_refused_and_leaves_no_image(
    words: list[str], error: type[DulyError], place: str, admin: Admin, door: Door, image: Path
) -> None:
    know(admin, "anna")
    refusal = door.refuse("posts", "create", image, *words)
    assert type(refusal) is error
    assert re.match(place, str(refusal)), str(refusal)
    assert count(admin, "uploads") == 0
    assert not [each for each in (door.directory / "objects").rglob("*") if each.is_file()]


def test_what_is_no_photograph_or_too_large_is_refused(admin: Admin, door: Door, tmp_path: Path) -> None:
    know(admin, "anna")
    text, large = tmp_path / "day.txt", tmp_path / "large.jpg"
    text.write_text("My day")
    with large.open("wb") as file:
        file.truncate(LARGEST_PHOTO_BYTES + 1)
    assert isinstance(door.refuse("posts", "create", text, "--user", "anna"), InvalidArgument)
    assert isinstance(door.refuse("posts", "create", large, "--user", "anna"), TooLarge)
    for path in (tmp_path / "nowhere.jpg", tmp_path):
        refused = door.run("posts", "create", path, "--user", "anna")
        assert refused.exit_code == 2
        assert "image" in refused.stderr


def test_refusals_of_a_process_have_their_status_and_code(admin: Admin, door: Door) -> None:
    refused = door.process("posts", "show", uuid4())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no post" in refused.stderr
    as_json = door.process("posts", "timeline", uuid4(), "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["error"]["code"]) == (2, "NOT_FOUND")
    assert door.process("posts", "show", "nonsense").returncode == 2


# Looking --------------------------------------------------------------------------------------------------------------


def test_posts_are_listed_page_by_page_and_by_author(admin: Admin, door: Door, image: Path, tmp_path: Path) -> None:
    lines = [{"id": str(uuid4()), "userId": "bo", "timestamp": f"2020-01-0{nth}T00:00:00Z"} for nth in range(1, 6)]
    lines[0]["content"] = "two\nlines, an \x1b[31mescape " + "and more " * 20
    assert door.tell("posts", "import-legacy", write(tmp_path, lines))["added"] == 5
    know(admin, "anna")
    waiting = door.tell("posts", "create", image, "--user", "anna")["postId"]
    wanted = [line["id"] for line in reversed(lines)]
    first = door.tell("posts", "list", "--limit", 2)
    assert first.keys() == {"items", "next"}
    assert [post["id"] for post in first["items"]] == wanted[:2]  # and nothing that waits
    rest = door.tell("posts", "list", "--limit", 3, "--place", first["next"])
    assert ([post["id"] for post in rest["items"]], rest["next"]) == (wanted[2:], None)
    assert [post["id"] for post in door.tell("posts", "list", "--author", "anna")["items"]] == [waiting]
    assert door.tell("posts", "list", "--author", "nobody-here") == {"items": [], "next": None}
    head, newest, more = door.say("posts", "list", "--limit", 1).splitlines()
    assert head.split() == ["id", "author_id", "status", "created_at", "released_at", "ai_error", "caption"]
    assert newest.split()[:3] == [wanted[0], "bo", "RELEASED"]
    assert more.startswith("more      --place ")
    *_, oldest = door.say("posts", "list", "--author", "bo").splitlines()
    assert "two lines, an \N{REPLACEMENT CHARACTER}[31mescape" in oldest
    assert "\x1b" not in oldest
    assert "caption           two lines, an \N{REPLACEMENT CHARACTER}" in door.say("posts", "show", wanted[-1])
    assert isinstance(door.refuse("posts", "list", "--place", "nonsense"), InvalidArgument)
    assert isinstance(door.refuse("posts", "list", "--author", "\udcff"), InvalidArgument)
    assert door.run("posts", "list", "--limit", 0).exit_code == 2


def test_a_long_log_is_shown_whole(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna")
    key = door.tell("posts", "create", image, "--user", "anna")["postId"]
    admin.execute(b"do $$ begin for nth in 1..1001 loop update posts.posts set caption = nth::text; end loop; end $$")
    assert [each["seq"] for each in door.tell("posts", "timeline", key)] == list(range(1, 1003))


def test_a_caption_is_changed_by_its_author_while_the_post_waits(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna", "bo")
    key = door.tell("posts", "create", image, "--user", "anna")["postId"]
    assert isinstance(door.refuse("posts", "edit", key, "--user", "bo", "--caption", "Mine!"), NotFound)
    assert isinstance(door.refuse("posts", "edit", key, "--user", "\udcff", "--caption", "x"), InvalidArgument)
    assert isinstance(door.refuse("posts", "edit", key, "--user", "anna", "--caption", "\udcff"), InvalidArgument)
    said = door.say("posts", "edit", key, "--user", "anna", "--caption", "My evening")
    assert "caption           My evening" in said
    hold(admin, key)
    assert isinstance(door.refuse("posts", "edit", key, "--user", "anna", "--caption", "Late"), IllegalMove)


def hold(admin: Admin, key: str) -> None:
    """Let a worker have a post, for a minute."""
    move_clock(admin, 6 * HOURS + 1)
    admin.execute(
        "update posts.posts set status = 'PROCESSING', lease_owner = 'w/1', process_attempts = 1,"
        " lease_expires_at = duly.clock() + interval '1 minute' where id = %s",
        [key],
    )


def test_what_a_dead_worker_held_waits_again(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna")
    key = door.tell("posts", "create", image, "--user", "anna")["postId"]
    hold(admin, key)
    assert door.say("posts", "repair") == "repaired  0\n"
    move_clock(admin, 61)
    assert door.tell("posts", "repair") == {"repaired": 1}
    assert door.tell("posts", "repair") == {"repaired": 0}
    shown = door.tell("posts", "show", key)
    assert (shown["status"], shown["process_attempts"]) == ("PENDING", 1)
    assert json.loads(door.process("posts", "release", "--json").stdout) == {"released": 1}
    assert check(admin, ("duly", "posts")) == []


def test_a_database_without_our_tables_says_what_to_run(database: str, door: Door) -> None:
    empty = Door(make_conninfo(database, dbname="postgres"), door.directory)
    for words in (["posts", "list"], ["slo"], ["posts", "repair"]):
        refusal = empty.refuse(*words)
        assert isinstance(refusal, NotMigrated)
        assert "duly migrate" in str(refusal)


# Documents of the first version ---------------------------------------------------------------------------------------


def write(directory: Path, lines: Iterable[object]) -> Path:
    """A file of documents, or of whatever else stands on a line."""
    file = directory / f"{uuid4()}.jsonl"
    file.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return file


V1 = {"userId": "anna", "timestamp": "2020-01-01T10:00:00Z"}
OWN = "0d9f4a52-8f0e-4d8c-9a3b-1f7f1c6a2e01"
IMPORTED: dict[str, tuple[object, Json]] = {
    "first version only": ({**V1, "content": "one"}, {"author_id": "anna", "caption": "one", "status": "RELEASED"}),
    "both versions": (
        {
            **V1,
            "content": "old",
            "url": "old.jpg",
            "authorId": "bo",
            "createdAt": "2021-06-01T12:00:00+02:00",
            "caption": "two",
            "imageUrl": "new.jpg",
        },
        {"author_id": "bo", "caption": "two", "image_url": "new.jpg", "created_at": "2021-06-01T10:00:00+00:00"},
    ),
    "waits": (
        {**V1, "caption": "three", "status": "PENDING"},
        {"status": "PENDING", "release_time": "2020-01-01T16:00:00+00:00"},
    ),
    "waits for a time of its own": (
        {**V1, "caption": "four", "status": "PENDING", "releaseTime": "2020-01-02T00:00:00Z"},
        {"status": "PENDING", "release_time": "2020-01-02T00:00:00+00:00"},
    ),
    "was being prepared": (
        {**V1, "caption": "five", "status": "PROCESSING", "leaseOwner": "cloud-7", "processAttempts": 4},
        {"status": "PENDING", "process_attempts": 0},
    ),
    "was released": (
        {
            **V1,
            "caption": "six",
            "status": "RELEASED",
            "releasedAt": "2020-01-01T16:01:00Z",
            "ai": {"mood": "calm"},
            "dailyKey": "anna_20200101",
            "requestId": OWN,
        },
        {"status": "RELEASED", "released_at": "2020-01-01T16:01:00+00:00", "ai": {"mood": "calm"}},
    ),
    "a uuid": ({**V1, "caption": "seven", "postId": OWN}, {"id": OWN}),
    "an id of Firestore": ({**V1, "caption": "eight", "id": "Kx9fQ2hVb7Zc1PqLm3Ns"}, {"status": "RELEASED"}),
    "milliseconds": (
        {"userId": "cia", "timestamp": 1577872800000, "content": "nine"},
        {"created_at": "2020-01-01T10:00:00+00:00"},
    ),
    "an exported timestamp": (
        {"userId": "cia", "timestamp": {"_seconds": 1577872800, "_nanoseconds": 500_000_000}, "content": "ten"},
        {"created_at": "2020-01-01T10:00:00.500000+00:00"},
    ),
    "a byte order mark": (
        b"\xef\xbb\xbf" + json.dumps({**V1, "content": "eleven"}).encode() + b"\r\n",
        {"status": "RELEASED"},
    ),
    "much else in it": (
        {**V1, "content": "twelve", "likes": [1, 2, {"by": "bo"}], "big": "x" * 900_000},
        {"version": 1},
    ),
}
BAD: dict[str, tuple[object, str]] = {
    "nonsense for a status": ({**V1, "status": "DONE"}, "status: must be one of PENDING, PROCESSING, RELEASED"),
    "no status but a number": ({**V1, "status": 7}, "status: must be text"),
    "nobody": ({"timestamp": "2020-01-01T10:00:00Z"}, "authorId or userId: must be there"),
    "nobody we can name": ({**V1, "userId": "anna_20200101/x"}, "authorId or userId: must be there"),
    "no time": ({"userId": "anna"}, "createdAt or timestamp: must be there"),
    "no time that we know": ({"userId": "anna", "timestamp": "yesterday"}, "timestamp: must be a time"),
    "a time beyond all": ({"userId": "anna", "timestamp": 9e15}, "timestamp: must"),
    "a time before all": ({"userId": "anna", "timestamp": 0}, "timestamp: must lie in the years"),
    "invalid UTF-8": (b'{"userId": "anna", "content": "\xff"}\n', "is not JSON"),
    "half a document": (b'{"userId": "anna",\n', "is not JSON"),
    "not a number": (b'{"userId": "anna", "timestamp": NaN}\n', "is not JSON"),
    "a list": ([1, 2], "must be an object"),
    "a text": ("anna", "must be an object"),
    "null": (None, "must be an object"),
    "a NUL": ({**V1, "content": "a\0b"}, "NUL"),
    "a caption too long": ({**V1, "content": "x" * (LONGEST_CAPTION + 1)}, "caption: has 2201"),
    "levels without end": (b"[" * 100_000 + b"\n", "is not JSON"),
    "more than a mebibyte": ({**V1, "content": "x" * 1_100_000}, "limit of 1048576 bytes"),
    "a huge line": (
        json.dumps({**V1, "big": "x" * 3 * LONGEST_LINE}).encode() + b"\n",
        "bytes; a document has at most",
    ),
    "what only the database refuses": ({**V1, "imageUrl": "x" * 3000}, "breaks the rule ck_posts__image_url"),
    "that again": ({**V1, "status": "RELEASED", "ai": {"much": list(range(20_000))}}, "breaks the rule ck_posts__ai"),
}


def test_good_lines_become_posts_and_bad_ones_are_named_by_their_number(
    admin: Admin, door: Door, tmp_path: Path
) -> None:
    lines: list[object] = [b"\n", b"   \t\r\n"]
    bad: dict[int, str] = {}
    goods = [document for document, _ in IMPORTED.values()]
    for nth, (document, reason) in enumerate(BAD.values()):
        if goods:
            lines.append(goods.pop(0))
        lines.append(document)
        bad[len(lines)] = reason
        if nth % 3 == 0:
            lines.append(b"\n")
    file = write(tmp_path, [*lines, *goods])
    done = door.process("posts", "import-legacy", file)
    assert done.returncode == 1
    told = [line.removeprefix(f"{file}:").split(": ", 1) for line in done.stderr.splitlines()]
    assert [int(number) for number, _ in told] == list(bad)
    for number, reason in told:
        assert bad[int(number)] in reason, number
    total = len(lines) + len(goods)
    assert done.stdout == (f"imported  {len(IMPORTED)} of {total} lines; 0 were there already, {len(BAD)} are bad\n")
    for name, (document, wanted) in IMPORTED.items():
        ((key, kept),) = find(admin, document)
        shown = door.tell("posts", "show", key)
        assert {field: shown[field] for field in wanted} == wanted, name
        assert kept == parsed(document), name
    assert count(admin, "posts") == len(IMPORTED)
    ((uids,),) = admin.execute('select array_agg(uid order by uid) from "user".users').fetchall()
    assert uids == ["anna", "bo", "cia"]
    ((lock, post),) = admin.execute("select id, post_id from posts.daily_locks").fetchall()  # only of those that say so
    assert (lock, [(post, IMPORTED["was released"][0])]) == (
        "anna_20200101_UTC",
        find(admin, IMPORTED["was released"][0]),
    )
    assert check(admin, ("duly", "posts")) == []
    again = door.run("posts", "import-legacy", file, "--json")
    assert again.exit_code == 1
    counted = json.loads(again.stdout)
    assert {name: counted[name] for name in ("lines", "added", "existing")} == {
        "lines": total,
        "added": 0,
        "existing": len(IMPORTED),
    }
    assert [line["line"] for line in counted["bad"]] == list(bad)
    assert again.stderr == ""
    assert count(admin, "posts") == len(IMPORTED)


def parsed(document: object) -> Json:
    """A document as it should be kept."""
    found = json.loads(document.removeprefix(b"\xef\xbb\xbf")) if isinstance(document, bytes) else document
    return json.loads(json.dumps(found))


def find(admin: Admin, document: object) -> list[tuple[UUID, Json]]:
    """The posts that are made of a document."""
    asked = "select id, legacy from posts.posts where legacy = %s::jsonb"
    return admin.execute(asked, [json.dumps(parsed(document))]).fetchall()


def test_an_import_without_a_bad_line_ends_with_0_and_twice_adds_nothing(
    admin: Admin, door: Door, tmp_path: Path
) -> None:
    twice = {**V1, "id": "Kx9fQ2hVb7Zc1PqLm3Ns"}
    same = {**V1, "content": "without an id"}
    file = write(tmp_path, [twice, same, {**twice, "content": "later"}, same, b"\n"])
    assert door.say("posts", "import-legacy", file) == ("imported  2 of 5 lines; 2 were there already, 0 are bad\n")
    again = door.tell("posts", "import-legacy", file)
    assert again == {"lines": 5, "added": 0, "existing": 4, "bad": []}
    assert count(admin, "posts") == 2
    assert door.tell("posts", "import-legacy", write(tmp_path, [])) == {
        "lines": 0,
        "added": 0,
        "existing": 0,
        "bad": [],
    }
    assert door.run("posts", "import-legacy", tmp_path / "nowhere.jsonl").exit_code == 2


def test_what_was_about_to_be_released_elsewhere_is_released_here(admin: Admin, door: Door, tmp_path: Path) -> None:
    at = read_clock(admin).isoformat()
    lines = [
        {"id": str(uuid4()), "authorId": "anna", "createdAt": at, "status": "PENDING", "caption": "So happy today"},
        {"id": str(uuid4()), "authorId": "bo", "createdAt": at, "status": "PROCESSING", "caption": "x"},
    ]
    door.say("posts", "import-legacy", write(tmp_path, lines))
    assert json.loads(door.process("posts", "release", "--json").stdout) == {"released": 0}  # it is not six hours old
    move_clock(admin, 6 * HOURS + 1)
    assert json.loads(door.process("posts", "release", "--json").stdout) == {"released": 2}
    for line in lines:
        assert door.tell("posts", "show", line["id"])["status"] == "RELEASED"
    assert check(admin, ("duly", "posts")) == []


def test_an_import_that_is_killed_and_begun_again_ends_with_every_document_once(
    admin: Admin, door: Door, tmp_path: Path
) -> None:
    total, before = 6 * BATCH + 7, 3 * BATCH
    lines = [{**V1, "id": f"doc-{nth}", "userId": f"author-{nth // 10}", "content": str(nth)} for nth in range(total)]
    file = write(tmp_path, lines)
    with psycopg.connect(admin.info.dsn) as other:  # makes the same person, and takes its time
        other.execute('insert into "user".users (uid) values (%s)', [f"author-{(before + 100) // 10}"])
        with door.start("posts", "import-legacy", file) as program:
            wait_until_blocked(admin.info.dsn)
            assert count(admin, "posts") == before  # whole batches, and nothing of the one under way
            program.kill()
        other.rollback()
    again = door.tell("posts", "import-legacy", file)
    assert again == {"lines": total, "added": total - before, "existing": before, "bad": []}
    ((rows, ids, captions),) = admin.execute(
        "select count(*), count(distinct legacy ->> 'id'), count(distinct caption) from posts.posts"
    ).fetchall()
    assert rows == ids == captions == total
    assert check(admin, ("duly", "posts")) == []


def test_an_import_whose_database_goes_away_says_so_and_can_be_begun_again(
    admin: Admin, door: Door, tmp_path: Path
) -> None:
    file = write(tmp_path, [{**V1, "id": f"doc-{nth}", "userId": f"author-{nth}"} for nth in range(BATCH + 10)])
    with psycopg.connect(admin.info.dsn) as other:
        other.execute('insert into "user".users (uid) values (%s)', [f"author-{BATCH + 5}"])
        with door.start("posts", "import-legacy", file) as program:
            wait_until_blocked(admin.info.dsn)
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'duly-cli'"
            )
            assert program.finish() == 69, program.said()
        other.rollback()
    assert re.search(r"^duly: .*begin again", program.said(), re.MULTILINE)
    assert "Traceback" not in program.said()
    assert door.tell("posts", "import-legacy", file)["added"] == 10


def test_large_documents_go_in_small_batches(admin: Admin, door: Door, tmp_path: Path) -> None:
    rows = 40
    file = write(tmp_path, ({**V1, "id": f"doc-{nth}", "big": "x" * 900_000} for nth in range(rows)))
    assert door.tell("posts", "import-legacy", file)["added"] == rows
    ((transactions,),) = admin.execute("select count(distinct xmin::text) from posts.posts").fetchall()
    assert transactions > 3


def test_the_import_is_for_the_owner_alone(admin: Admin, door: Door, tmp_path: Path) -> None:
    other = Door(make_conninfo(admin.info.dsn, user=Names().api), tmp_path)
    refused = other.process("posts", "import-legacy", write(tmp_path, [V1]))
    assert refused.returncode == 78
    assert "may not act as duly_owner" in refused.stderr


# How the promises stand -----------------------------------------------------------------------------------------------


def test_promises_that_are_kept_are_told_and_end_with_0(door: Door) -> None:
    head, *rows = door.say("slo").splitlines()
    assert head.startswith("promise")
    assert [row.split("  ")[0] for row in rows] == [
        "more than 99.5 % of intents succeed",
        "95 % of posts are released within 2 minutes of their time",
        "no post is in PROCESSING for longer than 15 minutes",
    ]
    assert not any(" NO " in row for row in rows)
    found = door.tell("slo")
    assert [(each["name"], each["is_met"]) for each in found] == [("intents", True), ("lag", True), ("stuck", True)]


def test_too_many_failed_intents_end_with_1(admin: Admin, door: Door) -> None:
    add = "insert into posts.intent_minutes values (date_trunc('minute', duly.clock(), 'UTC'), %s, %s)"
    admin.execute(add, ["CREATED", 1990])
    admin.execute(add, ["ALREADY_POSTED", 5000])
    admin.execute(add, ["UNEXPECTED", 9])
    assert door.run("slo").exit_code == 0
    admin.execute(add, ["UNAVAILABLE", 1])
    told = door.process("slo")  # 1990 of 2000 are 99.5 of 100, and not more
    assert (told.returncode, told.stderr) == (1, "")
    assert re.search(r"^more than 99\.5 % of intents succeed +NO +99\.500% +2000 +10 ", told.stdout, re.MULTILINE)
    as_json = door.run("slo", "--json")
    assert as_json.exit_code == 1
    intents, lag, stuck = json.loads(as_json.stdout)
    assert (intents["is_met"], lag["is_met"], stuck["is_met"]) == (False, True, True)
    assert (intents["events"], intents["bad"], intents["budget_left"]) == (2000, 10, 0.0)
    assert intents["burn_rates"] == {"1h": 1.0, "6h": 1.0, "3d": 1.0, "30d": 1.0}


def test_a_late_release_ends_with_1(admin: Admin, door: Door, image: Path) -> None:
    know(admin, "anna")
    door.say("posts", "create", image, "--user", "anna")
    move_clock(admin, 6 * HOURS + 121)
    assert door.process("posts", "release").returncode == 0
    told = door.run("slo", "--json")
    assert told.exit_code == 1
    _, lag, _ = json.loads(told.stdout)
    assert (lag["is_met"], lag["events"], lag["bad"]) == (False, 1, 1)
    assert lag["measured"] > 120
