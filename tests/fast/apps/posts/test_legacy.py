"""The contract's section 3: documents of the first version in every form of export; refused ones are all named."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from duly.apps.posts import legacy
from duly.apps.posts.legacy import RejectedLine, import_legacy, read_documents
from duly.apps.posts.legacy_document import parse_legacy
from duly.db.pool import open_pool
from duly.errors import InvalidArgument
from tests.support.command_line import CommandLine
from tests.support.posts.actions import PostActions

AT = datetime(2020, 1, 1, 10, 0, 0, 500_000, tzinfo=UTC)
V1 = {"userId": "anna", "timestamp": "2020-01-01T10:00:00Z"}


@pytest.fixture
def cli(posts: PostActions, tmp_path: Path) -> CommandLine:
    """The command line, on the test's database."""
    return CommandLine(posts.admin.info.dsn, tmp_path)


# `timestamp` -> `createdAt` -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "timestamp",
    [
        {"seconds": 1577872800, "nanoseconds": 500_000_000},
        {"_seconds": 1577872800, "_nanoseconds": 500_000_000},
        {"seconds": 1577872800, "nanoseconds": 500_000_999, "type": "firestore/timestamp/1.0"},
        "2020-01-01T10:00:00.5Z",
        1577872800500,
    ],
)
def test_timestamp_is_parsed_in_every_export_format(timestamp: Any) -> None:
    assert parse_legacy({"userId": "anna", "timestamp": timestamp}).created_at == AT


@pytest.mark.parametrize(
    "timestamp",
    [
        {"seconds": 1577872800},
        {"seconds": 1577872800, "_nanoseconds": 0},
        {"seconds": "1577872800", "nanoseconds": 0},
        {"seconds": True, "nanoseconds": 0},
        {"seconds": 1577872800, "nanoseconds": 1_000_000_000},
        {"seconds": 1577872800, "nanoseconds": -1},
        {"seconds": 2**52, "nanoseconds": 0},
    ],
)
def test_invalid_timestamp_is_refused_with_the_accepted_formats(timestamp: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"timestamp: must be a time: .*\{seconds, nanoseconds\}"):
        parse_legacy({"userId": "anna", "timestamp": timestamp})


# An export that is one array ------------------------------------------------------------------------------------------


def read(text: bytes) -> list[bytes | str]:
    """The documents of a file; what is no document as the reason why."""
    found = read_documents(io.BufferedReader(io.BytesIO(text)))  # type: ignore[arg-type]
    return [str(each) if isinstance(each, InvalidArgument) else each.strip() for each in found.each]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 1 << 20])
def test_json_array_is_read_document_by_document(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "CHUNK_BYTES", chunk)
    documents = [
        {"a": [1, {"b": "]},[{"}], "c": 'a "quoted" \\ text', "d": "\\"},
        {"e": "å\u2028"},
        {},
        7,
        "text, with a comma",
        [[], [1, 2]],
        None,
    ]
    for text in (json.dumps(documents), json.dumps(documents, indent=2), "\ufeff \n" + json.dumps(documents)):
        assert [json.loads(each) for each in read(text.encode())] == documents


def test_newline_delimited_documents_are_read_line_by_line() -> None:
    assert read(b'{"a": 1}\n\n{"b": 2}') == [b'{"a": 1}', b"", b'{"b": 2}']
    assert read(b"") == []
    assert read(b"[]") == read(b" [ ] \n") == []


@pytest.mark.parametrize(
    ("text", "number", "reason"),
    [
        (b"[1, 2", 2, "the array is not closed"),
        (b'[1, "2', 2, "the array is not closed"),
        (b"[1] 2", 2, "data after the end of the array"),
        (b"[1,,2]", 2, "is empty"),
        (b"[1,]", 2, "is empty"),
    ],
)
def test_malformed_array_is_reported_with_its_position(text: bytes, number: int, reason: str) -> None:
    assert reason in str(read(text)[number - 1])


def test_overlong_document_is_read_only_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(legacy, "MAX_LINE_LENGTH", 100)
    first, second = read(b'[{"a": "' + b"x" * 10_000 + b'"}, {"b": 1}]')
    assert (len(first), second) == (101, b'{"b": 1}')


def test_import_of_an_array_reports_every_refused_document(
    posts: PostActions, cli: CommandLine, tmp_path: Path
) -> None:
    documents: list[Any] = [
        {**V1, "id": "one", "timestamp": {"seconds": 1577872800, "nanoseconds": 0}},
        {"id": "two", "userId": "anna"},
        {**V1, "postId": "three", "imageUrl": "x" * 3000},
        "four",
        {**V1, "id": "five"},
    ]
    file = tmp_path / "export.json"
    file.write_text(json.dumps(documents, indent=2))
    done = cli.run("posts", "import-legacy", file)
    assert done.exit_code == 1
    assert done.stdout == "imported  2 of 5 documents; 0 existed already, 3 were rejected\n"
    assert done.stderr.splitlines() == [
        f"{file}: document 2: createdAt or timestamp: required (id two)",
        f"{file}: document 3: post {posts_id('three')} breaks the rule ck_posts__image_url (id three)",
        f"{file}: document 4: $: must be an object, not str",
    ]
    again = json.loads(cli.run("posts", "import-legacy", file, "--json").stdout)
    assert (again["documents"], again["added"], again["existing"]) == (5, 0, 2)
    assert [(each["document"], each["id"]) for each in again["bad"]] == [(2, "two"), (3, "three"), (4, None)]
    assert posts.count("posts.posts") == 2


def posts_id(name: str) -> str:
    """The id that a document of this name gets."""
    return str(parse_legacy({**V1, "id": name}).id)


async def test_import_reports_every_refused_line(posts: PostActions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy, "MAX_UNREPORTED", 100)
    named: list[RejectedLine] = []
    lines = [b'{"id": "x%d"}' % number for number in range(1, 1_001)]
    async with open_pool(posts.admin.info.dsn, size=1) as pool:
        done = await import_legacy(pool, lines, on_refused=named.extend)
    assert (done.bad, done.bad_lines) == (1_000, [])
    assert [(each.number, each.id) for each in named] == [(number, f"x{number}") for number in range(1, 1_001)]
