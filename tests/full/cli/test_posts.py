"""`duly posts` and `duly slo`: create, list, edit, release, repair, import; are the objectives met?"""

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from duly.apps.posts.legacy import BATCH_SIZE, MAX_LINE_LENGTH
from duly.apps.posts.model import MAX_CAPTION_LENGTH
from duly.db.migrations import Names
from tests.fast.cli.test_posts import V1, admin, api, claim, cli, database, image, posts, worker, write
from tests.support.command_line import CommandLine
from tests.support.locks import wait_until_blocked
from tests.support.posts.actions import HOURS, PostActions

__all__ = ["admin", "api", "cli", "database", "image", "posts", "worker"]

Json = dict[str, Any]
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
    "request_id",
    "lease_owner",
    "lease_expires_at",
}


# From nothing to a released post --------------------------------------------------------------------------------------


def test_a_post_is_created_shown_edited_and_released(posts: PostActions, cli: CommandLine, image: Path) -> None:
    assert "created" in cli.output("people", "create", "anna")
    created = cli.json("posts", "create", image, "--user", "anna", "--caption", "My day")
    assert created.keys() == {"outcome", "postId", "status", "releaseTime"}
    assert (created["outcome"], created["status"]) == ("created", "PENDING")
    key = created["postId"]
    shown = cli.json("posts", "show", key)
    assert shown.keys() == POST
    assert (shown["id"], shown["author_id"], shown["caption"], shown["version"]) == (key, "anna", "My day", 1)
    assert shown["created_at"].endswith("+00:00")
    assert (cli.directory / "objects" / shown["image_url"]).read_bytes().startswith(b"\xff\xd8")
    text = dict(line.split(maxsplit=1) for line in cli.output("posts", "show", key).splitlines())
    assert (text["id"], text["status"], text["caption"]) == (key, "PENDING", "My day")
    assert "ai" not in text
    edited = cli.json("posts", "edit", key, "--user", "anna", "--caption", "My evening")
    assert (edited["caption"], edited["version"]) == ("My evening", 2)
    assert cli.process("posts", "release").stdout == "released  0\n"
    posts.advance_clock(6 * HOURS + 1)
    released = cli.process("posts", "release", "--json")
    assert (released.returncode, json.loads(released.stdout)) == (0, {"released": 1})
    assert cli.process("posts", "release").stdout == "released  0\n"
    shown = cli.json("posts", "show", key)
    assert (shown["status"], shown["process_attempts"], shown["ai_error"]) == ("RELEASED", 1, None)
    assert {"mood", "music", "reasoning"} <= shown["ai"].keys()
    log = cli.json("posts", "timeline", key)
    assert [(each["prev_status"], each["next_status"]) for each in log] == [
        (None, "PENDING"),
        ("PENDING", "PENDING"),
        ("PENDING", "PROCESSING"),
        ("PROCESSING", "RELEASED"),
    ]
    assert [each["seq"] for each in log] == [1, 2, 3, 4]
    assert log[2]["actor"] == log[3]["actor"]
    head, first, *_ = cli.output("posts", "timeline", key).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    assert first.split()[4:6] == ["-", "PENDING"]
    posts.verify()


def test_posts_release_releases_more_posts_than_one_batch(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    at = posts.now().isoformat()
    rows = 130
    lines = [{"authorId": f"a-{nth}", "createdAt": at, "status": "PENDING", "caption": "x"} for nth in range(rows)]
    assert cli.json("posts", "import-legacy", write(tmp_path, lines))["added"] == rows
    posts.advance_clock(6 * HOURS + 1)
    assert json.loads(cli.process("posts", "release", "--json").stdout) == {"released": rows}
    posts.verify()


# Asking twice ---------------------------------------------------------------------------------------------------------


def test_a_refused_command_exits_with_its_status_and_error_code(posts: PostActions, cli: CommandLine) -> None:
    refused = cli.process("posts", "show", uuid4())
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "there is no post" in refused.stderr
    as_json = cli.process("posts", "timeline", uuid4(), "--json")
    assert (as_json.returncode, json.loads(as_json.stdout)["error"]["code"]) == (2, "NOT_FOUND")
    assert cli.process("posts", "show", "nonsense").returncode == 2


# Looking --------------------------------------------------------------------------------------------------------------


def test_posts_repair_returns_the_posts_of_a_dead_worker_to_the_queue(
    posts: PostActions, cli: CommandLine, image: Path
) -> None:
    posts.add_user("anna")
    key = cli.json("posts", "create", image, "--user", "anna")["postId"]
    claim(posts, key)
    assert cli.output("posts", "repair") == "repaired  0\n"
    posts.advance_clock(61)
    assert cli.json("posts", "repair") == {"repaired": 1}
    assert cli.json("posts", "repair") == {"repaired": 0}
    shown = cli.json("posts", "show", key)
    assert (shown["status"], shown["process_attempts"]) == ("PENDING", 1)
    assert json.loads(cli.process("posts", "release", "--json").stdout) == {"released": 1}
    posts.verify()


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
    "no author": ({"timestamp": "2020-01-01T10:00:00Z"}, "authorId or userId: required"),
    "invalid author": ({**V1, "userId": "anna_20200101/x"}, "authorId or userId: required"),
    "no time": ({"userId": "anna"}, "createdAt or timestamp: required"),
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
    "a caption too long": ({**V1, "content": "x" * (MAX_CAPTION_LENGTH + 1)}, "caption: has 2201"),
    "levels without end": (b"[" * 100_000 + b"\n", "is not JSON"),
    "more than a mebibyte": ({**V1, "content": "x" * 1_100_000}, "limit of 1048576 bytes"),
    "a huge line": (
        json.dumps({**V1, "big": "x" * 3 * MAX_LINE_LENGTH}).encode() + b"\n",
        "bytes; a document has at most",
    ),
    "what only the database refuses": ({**V1, "imageUrl": "x" * 3000}, "breaks the rule ck_posts__image_url"),
    "that again": ({**V1, "status": "RELEASED", "ai": {"much": list(range(20_000))}}, "breaks the rule ck_posts__ai"),
}


def test_an_import_creates_posts_and_reports_invalid_lines_by_number(
    posts: PostActions, cli: CommandLine, tmp_path: Path
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
    done = cli.process("posts", "import-legacy", file)
    assert done.returncode == 1
    printed = [line.removeprefix(f"{file}:").split(": ", 1) for line in done.stderr.splitlines()]
    assert [int(number) for number, _ in printed] == list(bad)
    for number, reason in printed:
        assert bad[int(number)] in reason, number
    total = len(lines) + len(goods)
    assert done.stdout == (f"imported  {len(IMPORTED)} of {total} lines; 0 existed already, {len(BAD)} were rejected\n")
    for name, (document, wanted) in IMPORTED.items():
        ((key, kept),) = find(posts, document)
        shown = cli.json("posts", "show", key)
        assert {field: shown[field] for field in wanted} == wanted, name
        assert kept == parsed(document), name
    assert posts.count("posts.posts") == len(IMPORTED)
    uids = posts.values("select uid from duly.person order by uid")
    assert uids == ["anna", "bo", "cia"]
    ((lock, post),) = posts.rows("select id, post_id from posts.daily_locks")  # only of those that say so
    assert (lock, [(post, IMPORTED["was released"][0])]) == (
        "anna_20200101_UTC",
        find(posts, IMPORTED["was released"][0]),
    )
    posts.verify()
    again = cli.run("posts", "import-legacy", file, "--json")
    assert again.exit_code == 1
    counted = json.loads(again.stdout)
    assert {name: counted[name] for name in ("lines", "added", "existing")} == {
        "lines": total,
        "added": 0,
        "existing": len(IMPORTED),
    }
    assert [line["line"] for line in counted["bad"]] == list(bad)
    assert again.stderr == ""
    assert posts.count("posts.posts") == len(IMPORTED)


def parsed(document: object) -> Json:
    """A document as it should be kept."""
    found = json.loads(document.removeprefix(b"\xef\xbb\xbf")) if isinstance(document, bytes) else document
    return json.loads(json.dumps(found))


def find(posts: PostActions, document: object) -> list[tuple[UUID, Json]]:
    """The posts that are made of a document."""
    query = "select id, legacy from posts.posts where legacy = %s::jsonb"
    return posts.admin.execute(query, [json.dumps(parsed(document))]).fetchall()


def test_imported_pending_posts_are_released_when_due(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    at = posts.now().isoformat()
    lines = [
        {"id": str(uuid4()), "authorId": "anna", "createdAt": at, "status": "PENDING", "caption": "So happy today"},
        {"id": str(uuid4()), "authorId": "bo", "createdAt": at, "status": "PROCESSING", "caption": "x"},
    ]
    cli.output("posts", "import-legacy", write(tmp_path, lines))
    assert json.loads(cli.process("posts", "release", "--json").stdout) == {"released": 0}  # it is not six hours old
    posts.advance_clock(6 * HOURS + 1)
    assert json.loads(cli.process("posts", "release", "--json").stdout) == {"released": 2}
    for line in lines:
        assert cli.json("posts", "show", line["id"])["status"] == "RELEASED"
    posts.verify()


def test_an_import_repeated_after_a_kill_adds_every_document_once(
    posts: PostActions, cli: CommandLine, tmp_path: Path
) -> None:
    total, before = 6 * BATCH_SIZE + 7, 3 * BATCH_SIZE
    lines = [{**V1, "id": f"doc-{nth}", "userId": f"author-{nth // 10}", "content": str(nth)} for nth in range(total)]
    file = write(tmp_path, lines)
    with psycopg.connect(posts.admin.info.dsn) as other:  # makes the same person, and takes its time
        other.execute("insert into duly.person (uid) values (%s)", [f"author-{(before + 100) // 10}"])
        with cli.start("posts", "import-legacy", file) as program:
            wait_until_blocked(posts.admin.info.dsn)
            assert posts.count("posts.posts") == before  # whole batches, and nothing of the one under way
            program.kill()
        other.rollback()
    again = cli.json("posts", "import-legacy", file)
    assert again == {"lines": total, "added": total - before, "existing": before, "bad": []}
    ((rows, ids, captions),) = posts.admin.execute(
        "select count(*), count(distinct legacy ->> 'id'), count(distinct caption) from posts.posts"
    ).fetchall()
    assert rows == ids == captions == total
    posts.verify()


def test_an_import_that_loses_its_connection_can_be_repeated(
    posts: PostActions, cli: CommandLine, tmp_path: Path
) -> None:
    file = write(tmp_path, [{**V1, "id": f"doc-{nth}", "userId": f"author-{nth}"} for nth in range(BATCH_SIZE + 10)])
    with psycopg.connect(posts.admin.info.dsn) as other:
        other.execute("insert into duly.person (uid) values (%s)", [f"author-{BATCH_SIZE + 5}"])
        with cli.start("posts", "import-legacy", file) as program:
            wait_until_blocked(posts.admin.info.dsn)
            posts.admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and application_name = 'duly-cli'"
            )
            assert program.finish() == 69, program.stderr_text()
        other.rollback()
    assert re.search(r"^duly: .*start the import again", program.stderr_text(), re.MULTILINE)
    assert "Traceback" not in program.stderr_text()
    assert cli.json("posts", "import-legacy", file)["added"] == 10


def test_the_import_requires_the_owner_role(posts: PostActions, cli: CommandLine, tmp_path: Path) -> None:
    other = CommandLine(make_conninfo(posts.admin.info.dsn, user=Names().api), tmp_path)
    refused = other.process("posts", "import-legacy", write(tmp_path, [V1]))
    assert refused.returncode == 78
    assert "may not act as duly_owner" in refused.stderr


def test_slo_exits_with_1_when_too_many_intents_fail(posts: PostActions, cli: CommandLine) -> None:
    add = "insert into posts.intent_minutes values (date_trunc('minute', duly.clock(), 'UTC'), %s, %s)"
    posts.admin.execute(add, ["CREATED", 1990])
    posts.admin.execute(add, ["ALREADY_POSTED", 5000])
    posts.admin.execute(add, ["UNEXPECTED", 9])
    assert cli.run("slo").exit_code == 0
    posts.admin.execute(add, ["UNAVAILABLE", 1])
    printed = cli.process("slo")  # 1990 of 2000 are 99.5 of 100, and not more
    assert (printed.returncode, printed.stderr) == (1, "")
    assert re.search(r"^more than 99\.5 % of intents succeed +NO +99\.500% +2000 +10 ", printed.stdout, re.MULTILINE)
    as_json = cli.run("slo", "--json")
    assert as_json.exit_code == 1
    intents, lag, stuck = json.loads(as_json.stdout)
    assert (intents["is_met"], lag["is_met"], stuck["is_met"]) == (False, True, True)
    assert (intents["events"], intents["bad"], intents["budget_left"]) == (2000, 10, 0.0)
    assert intents["burn_rates"] == {"1h": 1.0, "6h": 1.0, "3d": 1.0, "30d": 1.0}


def test_slo_exits_with_1_when_a_release_was_late(posts: PostActions, cli: CommandLine, image: Path) -> None:
    posts.add_user("anna")
    cli.output("posts", "create", image, "--user", "anna")
    posts.advance_clock(6 * HOURS + 121)
    assert cli.process("posts", "release").returncode == 0
    printed = cli.run("slo", "--json")
    assert printed.exit_code == 1
    _, lag, _ = json.loads(printed.stdout)
    assert (lag["is_met"], lag["events"], lag["bad"]) == (False, 1, 1)
    assert lag["measured"] > 120
