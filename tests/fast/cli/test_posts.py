"""`duly posts` and `duly slo`: create, list, edit, release, repair, import; are the objectives met?"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, time
from io import BytesIO
from pathlib import Path
from uuid import uuid4

import pytest
from PIL import Image
from psycopg.conninfo import make_conninfo

from duly.apps.posts.model import MAX_CAPTION_LENGTH
from duly.errors import (
    AlreadyPosted,
    DulyError,
    IllegalTransition,
    InvalidArgument,
    NotFound,
    NotMigrated,
    RequestIdReused,
    TooLarge,
)
from duly.storage.photo import MAX_PHOTO_BYTES
from tests.support.command_line import CommandLine
from tests.support.fixtures import admin, api, database, worker
from tests.support.posts.actions import HOURS, Admin, Connection, PostActions

__all__ = ["admin", "api", "database", "worker"]


@pytest.fixture
def posts(admin: Admin, worker: Connection, api: Admin) -> PostActions:
    """What tests of posts do, in a database where it is noon."""
    actions = PostActions(admin, worker, api)
    actions.set_clock(datetime.combine(actions.now().astimezone(UTC), time(12), UTC))
    return actions


@pytest.fixture
def cli(posts: PostActions, tmp_path: Path) -> CommandLine:
    return CommandLine(posts.admin.info.dsn, tmp_path)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A photograph on a disk."""
    file = BytesIO()
    Image.new("RGB", (60, 40), (250, 140, 60)).save(file, "PNG")
    path = tmp_path / "sunset.png"
    path.write_bytes(file.getvalue())
    return path


def test_create_prints_the_post_and_its_release_time(posts: PostActions, cli: CommandLine, image: Path) -> None:
    posts.add_user("anna")
    printed_text = cli.output("posts", "create", image, "--user", "anna")
    assert re.fullmatch(r"created   [0-9a-f-]{36}  PENDING, to be released at 20\S+Z\n", printed_text)
    shown = cli.json("posts", "show", printed_text.split()[1])
    assert shown["caption"] == ""


@pytest.mark.parametrize(
    ("arguments", "error", "pattern"),
    [
        (["--user", "unknown-user"], NotFound, r"there is no user unknown-user; create it with: duly people create"),
        (["--user", "two words"], InvalidArgument, r"'two words' is no uid"),
        (["--user", "\udcff"], InvalidArgument, r"'\\udcff' is no uid"),
        (["--user", "anna", "--caption", "x" * (MAX_CAPTION_LENGTH + 1)], InvalidArgument, r"caption: has 2201"),
        (["--user", "anna", "--caption", "\udcff"], InvalidArgument, r"caption: contains a NUL or a lone surrogate"),
    ],
    ids=["unknown user", "arguments", "bytes", "long", "half"],
)
def test_invalid_post_is_refused_and_leaves_no_image(
    arguments: list[str], error: type[DulyError], pattern: str, posts: PostActions, cli: CommandLine, image: Path
) -> None:
    posts.add_user("anna")
    refusal = cli.error("posts", "create", image, *arguments)
    assert type(refusal) is error
    assert re.match(pattern, str(refusal)), str(refusal)
    assert posts.count("posts.uploads") == 0
    assert not [each for each in (cli.directory / "objects").rglob("*") if each.is_file()]


def test_invalid_or_oversized_photograph_is_refused(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    posts.add_user("anna")
    text, large = tmp_path / "day.txt", tmp_path / "large.jpg"
    text.write_text("My day")
    with large.open("wb") as file:
        file.truncate(MAX_PHOTO_BYTES + 1)
    assert isinstance(cli.error("posts", "create", text, "--user", "anna"), InvalidArgument)
    assert isinstance(cli.error("posts", "create", large, "--user", "anna"), TooLarge)
    for path in (tmp_path / "nowhere.jpg", tmp_path):
        refused = cli.run("posts", "create", path, "--user", "anna")
        assert refused.exit_code == 2
        assert "image" in refused.stderr


def test_long_timeline_is_printed_completely(posts: PostActions, cli: CommandLine, image: Path) -> None:
    posts.add_user("anna")
    key = cli.json("posts", "create", image, "--user", "anna")["postId"]
    posts.admin.execute(
        b"do $$ begin for nth in 1..1001 loop update posts.posts set caption = nth::text; end loop; end $$"
    )
    assert [each["seq"] for each in cli.json("posts", "timeline", key)] == list(range(1, 1003))


def test_only_the_author_may_edit_the_caption_of_a_pending_post(
    posts: PostActions, cli: CommandLine, image: Path
) -> None:
    posts.add_user("anna")
    posts.add_user("bo")
    key = cli.json("posts", "create", image, "--user", "anna")["postId"]
    assert isinstance(cli.error("posts", "edit", key, "--user", "bo", "--caption", "Mine!"), NotFound)
    assert isinstance(cli.error("posts", "edit", key, "--user", "\udcff", "--caption", "x"), InvalidArgument)
    assert isinstance(cli.error("posts", "edit", key, "--user", "anna", "--caption", "\udcff"), InvalidArgument)
    printed_text = cli.output("posts", "edit", key, "--user", "anna", "--caption", "My evening")
    assert "caption           My evening" in printed_text
    claim(posts, key)
    assert isinstance(cli.error("posts", "edit", key, "--user", "anna", "--caption", "Late"), IllegalTransition)


def claim(posts: PostActions, key: str) -> None:
    """Claim a post that is due, for a minute."""
    posts.advance_clock(6 * HOURS + 1)
    posts.admin.execute(
        "update posts.posts set status = 'PROCESSING', lease_owner = 'w/1', process_attempts = 1,"
        " lease_expires_at = duly.clock() + interval '1 minute' where id = %s",
        [key],
    )


def test_database_without_tables_is_reported_with_duly_migrate(database: str, cli: CommandLine) -> None:
    empty = CommandLine(make_conninfo(database, dbname="postgres"), cli.directory)
    for arguments in (["posts", "list"], ["slo"], ["posts", "repair"]):
        refusal = empty.error(*arguments)
        assert isinstance(refusal, NotMigrated)
        assert "duly migrate" in str(refusal)


# Documents of the first version ---------------------------------------------------------------------------------------


def write(directory: Path, lines: Iterable[object]) -> Path:
    """A file of documents, or of whatever else stands on a line."""
    file = directory / f"{uuid4()}.jsonl"
    file.write_bytes(b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines))
    return file


V1 = {"userId": "anna", "timestamp": "2020-01-01T10:00:00Z"}


def test_import_of_valid_lines_exits_0_and_is_idempotent(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    twice = {**V1, "id": "Kx9fQ2hVb7Zc1PqLm3Ns"}
    same = {**V1, "content": "without an id"}
    file = write(tmp_path, [twice, same, {**twice, "content": "later"}, same, b"\n"])
    assert cli.output("posts", "import-legacy", file) == (
        "imported  2 of 5 lines; 2 existed already, 0 were rejected\n"
    )
    again = cli.json("posts", "import-legacy", file)
    assert again == {"lines": 5, "added": 0, "existing": 4, "bad": []}
    assert posts.count("posts.posts") == 2
    assert cli.json("posts", "import-legacy", write(tmp_path, [])) == {
        "lines": 0,
        "added": 0,
        "existing": 0,
        "bad": [],
    }
    assert cli.run("posts", "import-legacy", tmp_path / "nowhere.jsonl").exit_code == 2


# How the promises stand -----------------------------------------------------------------------------------------------


def test_objectives_that_are_met_are_printed_and_exit_0(cli: CommandLine) -> None:
    head, *rows = cli.output("slo").splitlines()
    assert head.startswith("objective")
    assert [row.split("  ")[0] for row in rows] == [
        "more than 99.5 % of intents succeed",
        "95 % of posts are released within 2 minutes of their time",
        "no post is in PROCESSING for longer than 15 minutes",
    ]
    assert not any(" NO " in row for row in rows)
    found = cli.json("slo")
    assert [(each["name"], each["is_met"]) for each in found] == [("intents", True), ("lag", True), ("stuck", True)]


def test_repeated_request_creates_one_post_and_another_is_refused(
    posts: PostActions, cli: CommandLine, image: Path
) -> None:
    posts.add_user("anna")
    posts.add_user("bo")
    request = uuid4()
    arguments = ["posts", "create", image, "--user", "anna", "--request-id", request]
    first = cli.json(*arguments, "--caption", "My day")
    again = cli.json(*arguments, "--caption", "My day")
    assert {**first, "outcome": "existing"} == again
    assert cli.output(*arguments, "--caption", "My day").startswith(f"existing  {first['postId']}")
    assert isinstance(cli.error(*arguments, "--caption", "Another"), RequestIdReused)
    other = cli.directory / "other.png"
    with Image.open(image) as shown:
        shown.transpose(Image.Transpose.ROTATE_90).save(other)
    other_image = ["posts", "create", other, "--user", "anna", "--request-id", request, "--caption", "My day"]
    assert isinstance(cli.error(*other_image), RequestIdReused)
    refusal = cli.error("posts", "create", image, "--user", "anna")
    assert isinstance(refusal, AlreadyPosted)
    assert str(refusal.post_id) == first["postId"]
    assert cli.json("posts", "create", image, "--user", "bo", "--request-id", request)["outcome"] == "created"
    posts.advance_clock(25 * HOURS)
    assert cli.json(*arguments, "--caption", "My day") == again
    assert posts.count("posts.posts") == 2
    posts.verify()


def test_posts_are_listed_in_pages_and_by_author(
    posts: PostActions, cli: CommandLine, image: Path, tmp_path: Path
) -> None:
    lines = [{"id": str(uuid4()), "userId": "bo", "timestamp": f"2020-01-0{nth}T00:00:00Z"} for nth in range(1, 6)]
    lines[0]["content"] = "two\nlines, an \x1b[31mescape " + "and more " * 20
    assert cli.json("posts", "import-legacy", write(tmp_path, lines))["added"] == 5
    posts.add_user("anna")
    waiting = cli.json("posts", "create", image, "--user", "anna")["postId"]
    expected = [line["id"] for line in reversed(lines)]
    first = cli.json("posts", "list", "--limit", 2)
    assert first.keys() == {"items", "next"}
    assert [post["id"] for post in first["items"]] == expected[:2]  # and nothing that waits
    rest = cli.json("posts", "list", "--limit", 3, "--cursor", first["next"])
    assert ([post["id"] for post in rest["items"]], rest["next"]) == (expected[2:], None)
    assert [post["id"] for post in cli.json("posts", "list", "--author", "anna")["items"]] == [waiting]
    assert cli.json("posts", "list", "--author", "unknown-user") == {"items": [], "next": None}
    head, newest, more = cli.output("posts", "list", "--limit", 1).splitlines()
    assert head.split() == ["id", "author_id", "status", "created_at", "released_at", "ai_error", "caption"]
    assert newest.split()[:3] == [expected[0], "bo", "RELEASED"]
    assert more.startswith("more      --cursor ")
    *_, oldest = cli.output("posts", "list", "--author", "bo").splitlines()
    assert "two lines, an \N{REPLACEMENT CHARACTER}[31mescape" in oldest
    assert "\x1b" not in oldest
    assert "caption           two lines, an \N{REPLACEMENT CHARACTER}" in cli.output("posts", "show", expected[-1])
    assert isinstance(cli.error("posts", "list", "--cursor", "nonsense"), InvalidArgument)
    assert isinstance(cli.error("posts", "list", "--author", "\udcff"), InvalidArgument)
    assert cli.run("posts", "list", "--limit", 0).exit_code == 2


def test_large_documents_are_imported_in_small_batches(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    rows = 40
    file = write(tmp_path, ({**V1, "id": f"doc-{nth}", "big": "x" * 900_000} for nth in range(rows)))
    assert cli.json("posts", "import-legacy", file)["added"] == rows
    assert posts.one("select count(distinct xmin::text) from posts.posts") > 3
