"""`duly jobs` through its door: ask, look, explain, steer."""

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncGenerator, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner, Result

from duly.cli import app
from duly.cli.jobs import actor
from duly.cli.watching import counter, watcher
from duly.db.migrations import Names
from duly.db.pool import connect
from duly.errors import DulyError, IllegalMove, InvalidArgument, KeyReused, NotFound, NotMigrated
from duly.ledger import store
from duly.ledger.sdk import DEFAULT_ORG
from duly.testing import install_test_clock
from tests.ledger.hands import Admin, Hands
from tests.support.processes import PYTHON, Program, plain_environment

JOBS = (*PYTHON, "-m", "duly", "jobs")


@pytest.fixture
def database(movable_database: str) -> str:
    """Here, one with a clock that can be moved."""
    return movable_database


@pytest.fixture
def admin(database: str) -> Generator[Admin, None, None]:
    with psycopg.connect(database, autocommit=True) as connection:
        install_test_clock(connection)
        yield connection


@pytest.fixture
async def hands(admin: Admin) -> AsyncGenerator[Hands, None]:
    async with await connect(make_conninfo(admin.info.dsn, user=Names().worker)) as worker:
        yield Hands(admin, worker)


class Door:
    """The command line in this process: what it prints, how it ends; in a thread, for it has a loop of its own."""

    def __init__(self, database: str) -> None:
        self.environment = {"DATABASE_URL": database}

    async def run(self, *words: object, given: str | None = None) -> Result:
        arguments = ["jobs", *map(str, words)]
        return await asyncio.to_thread(
            CliRunner().invoke, app, arguments, input=given, env=self.environment, prog_name="duly"
        )

    async def say(self, *words: object, given: str | None = None) -> str:
        """What it prints, when all is well."""
        result = await self.run(*words, given=given)
        assert result.exit_code == 0, result.output + repr(result.exception)
        return result.stdout

    async def tell(self, *words: object, given: str | None = None) -> Any:
        """The same, for programs."""
        return json.loads(await self.say(*words, "--json", given=given))

    async def refuse(self, *words: object, given: str | None = None) -> DulyError:
        """The error it ends with."""
        result = await self.run(*words, given=given)
        assert isinstance(result.exception, DulyError), result.output + repr(result.exception)
        return result.exception


@pytest.fixture
def door(database: str) -> Door:
    return Door(database)


async def bury(hands: Hands, door: Door, rows: int = 1, code: str = "OOPS", job_type: str = "work") -> None:
    """Ask for jobs and let them die."""
    for _ in range(rows):
        await door.say("enqueue", job_type, "--max-attempts", 1)
    kinds = [store.Kind("default", job_type)]
    await hands.fail(*await hands.hold(*kinds, most=rows), code=code)


# As a process ---------------------------------------------------------------------------------------------------------


def test_a_job_is_asked_for_explained_in_local_time_and_steered(database: str) -> None:
    environment = plain_environment(DATABASE_URL=database, TZ="JST-9")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*JOBS, *words], env=environment, capture_output=True, text=True)

    made = json.loads(run("enqueue", "work", "--payload", '{"n": 1}', "--key", "k", "--json").stdout)
    assert (made["outcome"], made["status"], made["payload"], made["org_id"]) == (
        "created",
        "queued",
        {"n": 1},
        str(DEFAULT_ORG),
    )
    assert made["created_at"].endswith("+00:00")
    explained = run("explain", made["id"])
    assert re.fullmatch(
        r"It is due since .* JST \(.*\), and no worker is alive; start one: duly worker\.\n", explained.stdout
    )
    refused = run("retry", made["id"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "only a dead_letter can" in refused.stderr
    as_json = run("show", str(uuid4()), "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "NOT_FOUND"


async def test_whoever_watches_is_told_every_change_and_the_end(database: str, hands: Hands, door: Door) -> None:
    environment = plain_environment(DATABASE_URL=database)
    with Program((*JOBS, "enqueue", "work", "--watch", "--json"), environment=environment) as watching:
        made = json.loads(await asyncio.to_thread(watching.line))
        assert (made["outcome"], made["status"]) == ("created", "queued")
        (lease,) = await hands.hold()
        assert json.loads(await asyncio.to_thread(watching.line))["status"] == "running"
        for progress in (10, 20):  # the second within a second, which is no event
            await store.record_progress(hands.worker, lease, "reading", progress)
            seen = json.loads(await asyncio.to_thread(watching.line))
            assert (seen["stage"], seen["progress"]) == ("reading", progress)
        await store.done(hands.worker, [lease], [{"pages": 2}])
        ended = json.loads(await asyncio.to_thread(watching.line))
        assert (ended["status"], ended["result"]) == ("succeeded", {"pages": 2})
        assert await asyncio.to_thread(watching.finish) == 0


async def test_watching_ends_with_1_when_it_did_not_succeed_or_takes_too_long(hands: Hands, door: Door) -> None:
    await bury(hands, door)
    (key,) = hands.look("id")
    watched = await door.run("show", key, "--watch")
    assert watched.exit_code == 1
    assert watched.stdout.splitlines()[-1].startswith(f"ended     {key}  work  dead_letter  OOPS: because")
    waited = await door.run("enqueue", "work", "--watch", "--watch-for", "100ms")
    assert waited.exit_code == 1
    assert "it has not ended; why: duly jobs explain" in waited.stderr
    await store.done(hands.worker, await hands.hold(), [None])
    _, done = hands.look("id")
    assert (await door.run("show", done, "--watch")).exit_code == 0


# Asking ---------------------------------------------------------------------------------------------------------------


async def test_every_option_of_a_wish_arrives(door: Door, hands: Hands) -> None:
    options = ["--queue", "images", "--key", "k", "--at", "2030-01-31T08:00+01:00", "--priority", -5]
    harder = ["--max-attempts", 3, "--backoff", "fixed", "--timeout", "2m"]
    made = await door.tell("enqueue", "work", *options, *harder)
    assert {name: made[name] for name in ("queue", "idempotency_key", "run_at", "priority", "max_attempts")} == {
        "queue": "images",
        "idempotency_key": "k",
        "run_at": "2030-01-31T07:00:00+00:00",
        "priority": -5,
        "max_attempts": 3,
    }
    assert (made["backoff_policy"], made["timeout_seconds"], made["requested_by"]) == ("fixed", 120.0, actor())
    assert actor().startswith("cli:")
    assert hands.log(made["id"])[0] == (None, "queued", {"actor": actor()})
    again = await door.tell("enqueue", "work", *options)
    assert (again["outcome"], again["id"]) == ("existing", made["id"])
    assert isinstance(await door.refuse("enqueue", "other", *options), KeyReused)
    delayed = await door.say("enqueue", "work", "--delay", "1h")
    assert delayed.startswith("created   ")
    assert "  queued  due 2" in delayed


async def test_a_payload_is_typed_read_from_a_file_or_given_as_input(door: Door, tmp_path: Path) -> None:
    file = tmp_path / "payload.json"
    file.write_text('{"from": "file"}')
    assert (await door.tell("enqueue", "work", "--payload", f"@{file}"))["payload"] == {"from": "file"}
    assert (await door.tell("enqueue", "work", "--payload", "-", given='{"from": "input"}'))["payload"] == {
        "from": "input"
    }
    assert (await door.tell("enqueue", "work"))["payload"] == {}


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--payload", '{"a": 1,}'], r"--payload: not JSON at line 1, column 9"),
        (["--payload", '{"a": [1, NaN]}'], r"--payload: \$\.a\[1\]: is not a finite number"),
        (["--payload", "[]"], r"--payload: \$: must be an object"),
        (["--payload", "[" * 100_000], r"--payload: "),
        (["--payload", "@/nowhere/at/all"], r"--payload @/nowhere/at/all: .*No such file"),
        (["--payload", json.dumps({"a": "x" * 1024 * 1024})], r"--payload: \$\.a: here the value passes its limit"),
        (["--delay", "soon"], r"--delay: a duration of 'soon'"),
        (["--timeout", "-1s"], r"--timeout: a duration of '-1s'"),
        (["--at", "tomorrow"], r"--at 'tomorrow': write a time as"),
        (["--at", "2030-01-31", "--delay", "1s"], r"--at 2030-01-31 and --delay 1s: "),
        (["--org", "nobody"], r"there is no org 'nobody'; make it with"),
    ],
)
async def test_a_wish_that_cannot_be_meant_is_refused_with_its_place(words: list[str], place: str, door: Door) -> None:
    refusal = await door.refuse("enqueue", "work", *words)
    assert isinstance(refusal, InvalidArgument | NotFound)
    assert refusal.exit_status == 2
    assert re.match(place, str(refusal)), str(refusal)


@pytest.mark.parametrize("words", [["--priority", "101"], ["--backoff", "never"], ["--max-attempts", "0"]])
async def test_what_an_option_cannot_be_is_refused_before_anything_is_asked(words: list[str], door: Door) -> None:
    refused = await door.run("enqueue", "work", *words)
    assert refused.exit_code == 2
    assert words[0] in refused.stderr


# Looking --------------------------------------------------------------------------------------------------------------


async def test_jobs_are_listed_page_by_page_and_by_what_they_are(door: Door, hands: Hands) -> None:
    keys = [str(key) for key in hands.put(org=DEFAULT_ORG, rows=3)]
    first = await door.tell("list", "--limit", 2)
    assert [job["id"] for job in first["items"]] == [keys[2], keys[1]]
    rest = await door.tell("list", "--limit", 2, "--place", first["next"])
    assert ([job["id"] for job in rest["items"]], rest["next"]) == ([keys[0]], None)
    await door.say("cancel", keys[0])
    (only,) = (await door.tell("list", "--status", "canceled", "--type", "work", "--queue", "default"))["items"]
    assert only["id"] == keys[0]
    assert (await door.tell("list", "--finished-from", only["finished_at"]))["items"] == [only]
    assert (await door.tell("list", "--finished-before", only["finished_at"]))["items"] == []
    for nothing in (["--type", "other"], ["--queue", "other"], ["--status", "running"]):
        assert (await door.tell("list", *nothing)) == {"items": [], "next": None}
    head, newest, more = (await door.say("list", "--limit", 1)).splitlines()
    assert head.split()[:5] == ["id", "type", "queue", "status", "starts"]
    assert newest.split()[:5] == [keys[2], "work", "default", "queued", "0/5"]
    assert more.startswith("more      --place ")
    assert isinstance(await door.refuse("list", "--place", "nonsense"), InvalidArgument)


async def test_a_job_is_shown_with_its_log(door: Door, hands: Hands) -> None:
    made = await door.tell("enqueue", "work", "--payload", '{"n": 1}')
    assert await door.tell("show", made["id"]) == {name: made[name] for name in made if name != "outcome"}
    assert made["created_at"].endswith("+00:00")
    shown = dict(line.split(maxsplit=1) for line in (await door.say("show", made["id"])).splitlines())
    assert (shown["status"], shown["org_id"], shown["payload"]) == ("queued", "default", '{"n": 1}')
    await store.done(hands.worker, await hands.hold(), [None])
    events = await door.tell("timeline", made["id"])
    assert [(event["seq"], event["next_status"]) for event in events] == [
        (1, "queued"),
        (2, "running"),
        (3, "succeeded"),
    ]
    head, first, *_ = (await door.say("timeline", made["id"])).splitlines()
    assert head.split() == ["seq", "at", "from", "to", "by", "details"]
    assert first.split()[4:6] == ["-", "queued"]


async def test_a_long_log_is_shown_whole(door: Door, hands: Hands) -> None:
    (key,) = hands.put(org=DEFAULT_ORG)
    (lease,) = await hands.hold()
    for nth in range(1001):
        await store.record_progress(hands.worker, lease, f"stage {nth}", None)
    events = await door.tell("timeline", key)
    assert [event["seq"] for event in events] == list(range(1, 1004))


async def test_why_a_job_is_not_running_is_one_sentence_or_a_reason_for_programs(door: Door, hands: Hands) -> None:
    (key,) = hands.put(org=DEFAULT_ORG, delay_seconds=3600)
    assert re.fullmatch(r"It waits until .*, as it was asked to\.\n", await door.say("explain", key))
    told = await door.tell("explain", key)
    assert (told["reason"], told["status"], told["id"]) == ("delayed", "queued", str(key))
    assert re.search(r"\d UTC, for another", told["sentence"])


async def test_an_org_is_named_or_given_by_its_id_and_sees_its_own_jobs_only(door: Door, admin: Admin) -> None:
    ((org,),) = admin.execute("insert into duly.orgs (name) values ('acme') returning id").fetchall()
    made = await door.tell("enqueue", "work", "--org", "acme")
    assert made["org_id"] == str(org)
    for words in (["show"], ["timeline"], ["explain"], ["cancel"], ["cancel", "--now"], ["retry"]):
        assert isinstance(await door.refuse(words[0], made["id"], *words[1:]), NotFound)
    assert (await door.tell("list"))["items"] == []
    assert (await door.tell("show", made["id"], "--org", org))["id"] == made["id"]
    assert (await door.tell("redrive", "--org", "acme"))["matched"] == 0
    assert (await door.tell("enqueue", "work", "--org", DEFAULT_ORG))["org_id"] == str(DEFAULT_ORG)


async def test_what_strangers_wrote_is_shown_and_not_obeyed(door: Door, hands: Hands) -> None:
    red = "two\nlines \x1b[31m"
    shown = "two lines \N{REPLACEMENT CHARACTER}[31m"
    (key,) = hands.put(org=DEFAULT_ORG, requested_by=red, max_attempts=1)
    (lease,) = await hands.hold()
    await store.record_progress(hands.worker, lease, red, 40)
    assert f"in stage '{shown}'" in await door.say("explain", key)
    await hands.fail(lease, code="OOPS", message=red)
    assert f"with OOPS ({shown});" in await door.say("explain", key)
    told = (await door.say("show", key)).splitlines()
    for name in ("requested_by", "stage", "last_error_message"):
        assert [line.split(maxsplit=1) for line in told if line.startswith(f"{name} ")] == [[name, shown]]
    for verb, ends in (("retry", "queued"), ("cancel", "canceled")):
        assert (await door.say(verb, key)).endswith(f"{key}  work  {ends}  OOPS: {shown}\n")
    assert "\x1b" not in await door.say("timeline", key)


# Steering: every edge that a person can cause -------------------------------------------------------------------------


async def test_queued_to_canceled(door: Door, hands: Hands) -> None:
    (key,) = hands.put(org=DEFAULT_ORG)
    assert (await door.say("cancel", key)).startswith(f"canceled  {key}")
    assert hands.log(key)[-1] == ("queued", "canceled", {"actor": actor(), "reason": "cancel_requested"})
    refusal = await door.refuse("cancel", key)
    assert isinstance(refusal, IllegalMove)
    assert "is canceled and cannot be cancelled" in str(refusal)


async def test_running_is_asked_to_stop_and_runs_on(door: Door, hands: Hands) -> None:
    (key,) = hands.put(org=DEFAULT_ORG)
    await hands.hold()
    said = await door.say("cancel", key)
    assert said.startswith(f"asked     {key}")
    assert "--now" in said
    assert hands.log(key)[-1] == ("running", "running", {"actor": actor(), "reason": "cancel_requested"})
    assert (await door.tell("explain", key))["reason"] == "asked_to_stop"


async def test_running_to_canceled(door: Door, hands: Hands) -> None:
    (key,) = hands.put(org=DEFAULT_ORG)
    leases = await hands.hold()
    assert (await door.tell("cancel", key, "--now"))["status"] == "canceled"
    assert hands.log(key)[-1] == ("running", "canceled", {"actor": actor(), "reason": "cancel_requested"})
    assert await store.done(hands.worker, leases, [None]) == frozenset()


async def test_dead_letter_to_queued(door: Door, hands: Hands) -> None:
    await bury(hands, door)
    (key,) = hands.look("id")
    assert (await door.say("retry", key)).startswith(f"retried   {key}  work  queued")
    assert hands.log(key)[-1] == ("dead_letter", "queued", {"actor": actor(), "reason": "redriven"})
    assert isinstance(await door.refuse("retry", key), IllegalMove)


async def test_dead_letters_are_counted_before_they_are_redriven(door: Door, hands: Hands) -> None:
    await bury(hands, door, 2, "OOPS")
    await bury(hands, door, 1, "TIMEOUT", "other")
    assert await door.tell("redrive", "--dry-run") == {"matched": 3, "redriven": 0}
    assert await door.tell("redrive", "--dry-run", "--code", "OOPS", "--queue", "default") == {
        "matched": 2,
        "redriven": 0,
    }
    latest = max(hands.look("finished_at"))
    assert (await door.tell("redrive", "--dry-run", "--finished-from", latest.isoformat()))["matched"] == 1
    assert (await door.tell("redrive", "--dry-run", "--finished-before", latest.isoformat()))["matched"] == 2
    refused = await door.run("redrive", "--type", "work", given="n\n")
    assert refused.exit_code == 1
    assert set(hands.look("status")) == {"dead_letter"}
    agreed = await door.run("redrive", "--type", "work", given="y\n")
    matched, *_, redriven = agreed.stdout.splitlines()
    assert (matched, redriven) == ("matched   2 dead letters", "redriven  2")
    assert hands.look("status") == ["queued", "queued", "dead_letter"]
    assert (await door.say("redrive", "--yes")).splitlines() == ["matched   1 dead letter", "redriven  1"]
    assert await door.tell("redrive") == {"matched": 0, "redriven": 0}
    hands.verify()


async def test_what_is_paused_is_not_claimed_until_it_is_resumed(door: Door, hands: Hands) -> None:
    hands.put()
    assert (await door.say("pause", "--queue", "default")).startswith("paused    queue default, since ")
    assert await hands.hold() == []
    assert hands.admin.execute("select queue, type, paused_by from ledger.job_limit").fetchall() == [
        ("default", "*", actor())
    ]
    assert (await door.tell("pause", "--queue", "default", "--type", "work"))["type"] == "work"
    assert [(each["queue"], each["type"]) for each in await door.tell("limits")] == [
        ("default", "*"),
        ("default", "work"),
    ]
    assert (await door.say("limits")).splitlines()[0].split() == ["queue", "type", "most", "paused_at", "paused_by"]
    assert await door.say("resume", "--queue", "default", "--type", "work") == "resumed   queue default and type work\n"
    assert await hands.hold() == []
    assert (await door.tell("resume", "--queue", "default"))["resumed"] is True
    assert await door.say("resume", "--queue", "default") == "it was not paused\n"
    assert len(await hands.hold()) == 1
    for verb in ("pause", "resume"):
        assert isinstance(await door.refuse(verb), InvalidArgument)


# Whose rights ---------------------------------------------------------------------------------------------------------


async def test_the_rights_of_the_api_are_enough_but_to_explain(door: Door, hands: Hands, database: str) -> None:
    door.environment["DATABASE_URL"] = make_conninfo(database, user=Names().api)
    made = await door.tell("enqueue", "work")
    assert (await door.tell("cancel", made["id"]))["status"] == "canceled"
    assert f"grant {Names().worker} to {Names().api}" in str(await door.refuse("explain", made["id"]))


async def test_a_database_without_our_tables_says_what_to_run(door: Door, server: str) -> None:
    door.environment["DATABASE_URL"] = make_conninfo(server, dbname="template1")
    for words in (["list"], ["enqueue", "work"], ["explain", uuid4()], ["pause", "--queue", "q"]):
        assert isinstance(await door.refuse(*words), NotMigrated)


# On a terminal --------------------------------------------------------------------------------------------------------


def take_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on standard error is a terminal."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")


async def test_on_a_terminal_whoever_watches_a_job_sees_a_bar(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (key,) = hands.put(org=DEFAULT_ORG)
    (lease,) = await hands.hold()
    await store.record_progress(hands.worker, lease, "reading", 40)
    job = await store.find_job(hands.worker, DEFAULT_ORG, key)
    assert job
    take_for_a_terminal(monkeypatch)
    with watcher(job, as_json=False) as tell_change:
        tell_change(replace(job, stage="writing", progress=80))
    seen = capsys.readouterr()
    assert "running writing" in seen.err
    assert "80%" in seen.err
    assert seen.out == ""


def test_on_a_terminal_whoever_redrives_sees_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_for_a_terminal(monkeypatch)
    with counter("redriving", 20) as tell_progress:
        tell_progress(10)
    seen = capsys.readouterr()
    assert "redriving" in seen.err
    assert "10/20" in seen.err
    assert seen.out == ""
