"""`./duly up --demo`, as a newcomer runs it: complete, true to the database, and every printed command works."""

import re
import shlex
import signal
import subprocess
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import httpx2
import psycopg
import pytest

from duly.db.embedded import EmbeddedServer
from duly.db.location import EMBEDDED_DATABASE
from duly.launcher import ROOT
from duly.verify import check
from tests.support.processes import Program, plain_environment, wait_unlocked, wait_until_ended
from tests.support.terminal import TerminalProgram
from tools.demo.story import CHAPTERS

ELSEWHERE = "postgresql://user@127.0.0.1:1/not_yours"  # a connection to it fails
SCHEMAS = ("duly", "ledger", "posts", "scheduler", "expense", "user", "schedule_ingest")
SECONDS = 240.0  # for a story, on a machine that does much else; alone it takes a quarter of a minute
STORY_SECONDS = 120  # as the story itself counts; it promises a minute on a machine that does nothing else
COMMANDS_AT_ONCE = 4
DEMO = (str(ROOT / "duly"), "up", "--demo", "--port", "0")
COMMAND = re.compile(r"^ +\$ (.+)$", re.MULTILINE)


def demo_environment(home: Path) -> dict[str, str]:
    """A newcomer who has a database already, which is none of the demo's business."""
    return plain_environment(DULY_HOME=str(home), DATABASE_URL=ELSEWHERE, NO_COLOR="1", TERM="dumb")


def paste(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a printed command as a shell does, where the newcomer stands."""
    return subprocess.run(
        ["sh", "-c", command], cwd=ROOT, env=demo_environment(home), capture_output=True, text=True, timeout=SECONDS
    )


@contextmanager
def connect_to_demo(home: Path) -> Generator[psycopg.Connection[Any], None, None]:
    """The demo's database."""
    with (
        EmbeddedServer.start(home / "demo") as server,
        psycopg.connect(server.dsn(EMBEDDED_DATABASE), autocommit=True) as connection,
    ):
        yield connection


def rows(connection: psycopg.Connection[Any], query: LiteralString) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def assert_story_is_complete(story: str) -> None:
    """Every chapter was printed, in order, with commands; and how long it took."""
    titles = re.findall(r"^(\d)\. (.+)$", story, re.MULTILINE)
    assert titles == [(str(number), each.title) for number, each in enumerate(CHAPTERS, start=1)]
    duration = re.search(r"The demo finished in (\d+) s\.", story)
    assert duration
    assert int(duration[1]) <= STORY_SECONDS, story
    assert "Six hours pass: the clock of the database is moved" in " ".join(story.split())


def assert_database_state(connection: psycopg.Connection[Any]) -> None:
    """What the demo prints is what the database holds, and every invariant holds."""
    assert rows(connection, "select version from schedule_ingest.schedule_version order by version") == [(1,), (2,)]
    kinds = ["shift_added", "shift_added", "shift_added", "shift_time_changed"]
    assert rows(connection, "select event_type from schedule_ingest.schedule_event order by detected_at, seq") == [
        (kind,) for kind in kinds
    ]
    assert rows(connection, "select status from schedule_ingest.schedule_notification") == [("sent",), ("sent",)]
    assert rows(connection, "select status from scheduler.job_runs where status = 'confirmed'") == [("confirmed",)]
    assert rows(connection, "select amount, currency, reverses from expense.expenses") == [(119, "SEK", None)]
    assert rows(connection, "select channel, status from duly.outbox where kind = 'reminder.due'") == [
        ("console", "sent")
    ]
    ((status, mood, music, error, hours),) = rows(
        connection,
        "select status, ai->>'mood', ai->>'music', ai_error, extract(epoch from released_at - created_at) / 3600 "
        "from posts.posts",
    )
    assert (status, error, bool(mood), bool(music)) == ("RELEASED", None, True, True)
    assert 6 <= hours < 6.1
    tries = ["queued", "running", "failed", "queued", "running", "failed", "queued", "running", "succeeded"]
    assert rows(connection, "select next_status from ledger.job_event order by seq") == [(each,) for each in tries]
    assert rows(connection, "select duly.clock() > clock_timestamp() + interval '6 hours'") == [(True,)]
    assert check(connection, SCHEMAS) == []


def find_commands(story: str) -> list[str]:
    found = [match[1] for match in COMMAND.finditer(story)]
    assert len(found) > 2 * len(CHAPTERS)
    return found


def assert_commands_work(commands: Sequence[str], home: Path) -> None:
    """Every printed command, pasted into a shell whose DATABASE_URL says something else, succeeds."""
    with ThreadPoolExecutor(COMMANDS_AT_ONCE) as executor:
        for done in executor.map(partial(paste, home=home), commands):
            assert done.returncode == 0, f"{done.args}\n{done.stdout}{done.stderr}"


def start_demo(home: Path) -> TerminalProgram:
    """A demo on a terminal."""
    return TerminalProgram(DEMO, demo_environment(home), ROOT)


@pytest.fixture
def terminal(home: Path) -> Generator[TerminalProgram, None, None]:
    """The first one."""
    with start_demo(home) as demo:
        yield demo
    wait_unlocked(home / "demo" / "supervisor.lock")


@pytest.mark.long
@pytest.mark.timeout(3 * SECONDS)
def test_the_demo_runs_one_item_through_each_domain_and_its_printed_commands_work(home: Path) -> None:
    result = subprocess.run(
        DEMO, cwd=ROOT, env=demo_environment(home), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stderr == ""
    assert_story_is_complete(result.stdout)
    with connect_to_demo(home) as connection:
        assert_database_state(connection)
        assert_commands_work(find_commands(result.stdout), home)


@pytest.mark.long
@pytest.mark.timeout(3 * SECONDS)
def test_the_demo_can_be_repeated_stays_up_on_a_terminal_and_stops_all_processes(
    home: Path, terminal: TerminalProgram
) -> None:
    terminal.read_until("1. ")  # a demo that is cut short is no obstacle for the next
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(SECONDS) == 130
    wait_unlocked(home / "demo" / "supervisor.lock")

    with start_demo(home) as again:
        story = again.read_until("Stop with Ctrl-C.")
        assert_story_is_complete(story)
        address = re.search(r"http://127\.0\.0\.1:\d+", story)
        assert address
        assert httpx2.get(f"{address[0]}/readyz", trust_env=False, timeout=30).status_code == 200
        assert_commands_work(find_commands(story)[-1:], home)
        second = subprocess.run(DEMO, cwd=ROOT, env=demo_environment(home), capture_output=True, text=True)
        assert (second.returncode, "already running in this directory" in second.stderr) == (2, True)
        with connect_to_demo(home) as connection:
            assert_database_state(connection)
        processes = Path(f"/proc/{again.process.pid}/task/{again.process.pid}/children").read_text().split()
        assert len(processes) == 2
        again.process.send_signal(signal.SIGINT)
        assert again.process.wait(SECONDS) == 0
        for process in processes:
            wait_until_ended(int(process), seconds=0.5)


def test_the_demo_refuses_to_replace_a_database_it_did_not_create(home: Path) -> None:
    real = plain_environment(DULY_HOME=str(home / "demo"))
    made = subprocess.run([ROOT / "duly", "migrate"], cwd=ROOT, env=real, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    image = home / "demo" / "objects" / "posts" / "kept.jpg"
    image.parent.mkdir(parents=True)
    image.write_bytes(b"the user's")
    with Program(DEMO, environment=demo_environment(home), directory=ROOT) as refused:
        assert refused.finish() == 78
        assert "was not made by a demo" in refused.stderr_text()
    wait_unlocked(home / "demo" / "supervisor.lock")
    with connect_to_demo(home) as connection:
        assert rows(connection, "select to_regclass('duly.test_clock')") == [(None,)]
    assert image.read_bytes() == b"the user's"


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("--demo", "--app", "examples.greet:app"), "a demo brings its own job types"),
        (("--once",), "--once needs --demo"),
    ],
)
def test_the_demo_refuses_contradictory_options(arguments: Sequence[str], refusal: str, home: Path) -> None:
    command = shlex.join((str(ROOT / "duly"), "up", *arguments))
    done = paste(command, home)
    assert (done.returncode, refusal in done.stderr) == (2, True), done.stderr
