"""`duly jobs`: enqueue, list, explain, steer."""

import asyncio
import json
import re
import shlex
import subprocess
from uuid import uuid4

from duly.jobs import repository
from duly.jobs.model import DEFAULT_ORG
from tests.fast.cli.test_jobs import admin, cli, database, jobs, worker
from tests.support.command_line import DULY, CommandLine
from tests.support.jobs.actions import JobActions
from tests.support.processes import plain_environment
from tests.support.terminal import TerminalProgram

__all__ = ["admin", "cli", "database", "jobs", "worker"]


# As a process ---------------------------------------------------------------------------------------------------------


def test_jobs_commands_enqueue_explain_in_local_time_and_refuse_a_wrong_retry(cli: CommandLine) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return cli.process("jobs", *arguments, TZ="JST-9")

    created = json.loads(run("enqueue", "work", "--payload", '{"n": 1}', "--key", "k", "--json").stdout)
    assert (created["outcome"], created["status"], created["payload"], created["org_id"]) == (
        "created",
        "queued",
        {"n": 1},
        str(DEFAULT_ORG),
    )
    assert created["created_at"].endswith("+00:00")
    explained = run("explain", created["id"])
    assert re.fullmatch(
        r"It is due since .* JST \(.*\), and no worker is alive; start one: duly worker\.\n", explained.stdout
    )
    refused = run("redrive", created["id"])
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "it is no dead letter" in refused.stderr
    as_json = run("show", str(uuid4()), "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "NOT_FOUND"


def test_jobs_list_fits_a_terminal_and_prints_full_ids_in_a_pipe(cli: CommandLine, jobs: JobActions) -> None:
    keys = [str(key) for key in jobs.enqueue(org=DEFAULT_ORG, rows=2)]
    environment = plain_environment(**cli.environment, TERM="xterm", COLUMNS="80")
    with TerminalProgram(["sh", "-c", f"{shlex.join(DULY)} jobs list; echo the end"], environment) as terminal:
        shown = terminal.read_until("the end\n").splitlines()
    assert max(map(len, shown)) <= 80
    assert len(shown) == 4
    piped = cli.process("jobs", "list", COLUMNS="80").stdout.splitlines()
    assert [line.split()[0] for line in piped] == ["id", *reversed(keys)]
    for line, key in zip(shown[1:], reversed(keys), strict=False):
        assert key.startswith(line.split()[0])
        assert json.loads(cli.process("jobs", "show", line.split()[0], "--json").stdout)["id"] == key


async def test_jobs_enqueue_watch_prints_every_change_and_the_result(jobs: JobActions, cli: CommandLine) -> None:
    with cli.start("jobs", "enqueue", "work", "--watch", "--json") as watching:
        created = json.loads(await asyncio.to_thread(watching.line))
        assert (created["outcome"], created["status"]) == ("created", "queued")
        (lease,) = await jobs.claim()
        assert json.loads(await asyncio.to_thread(watching.line))["status"] == "running"
        for progress in (10, 20):  # the second within a second, which is no event
            await repository.record_progress(jobs.worker, lease, "reading", progress)
            seen = json.loads(await asyncio.to_thread(watching.line))
            assert (seen["stage"], seen["progress"]) == ("reading", progress)
        await repository.settle_done(jobs.worker, [lease], [{"pages": 2}])
        ended = json.loads(await asyncio.to_thread(watching.line))
        assert (ended["status"], ended["result"]) == ("succeeded", {"pages": 2})
        assert await asyncio.to_thread(watching.finish) == 0


async def test_jobs_timeline_prints_more_events_than_one_page(cli: CommandLine, jobs: JobActions) -> None:
    (key,) = jobs.enqueue(org=DEFAULT_ORG)
    (lease,) = await jobs.claim()
    await repository.record_progress(jobs.worker, lease, "reading", None)
    for _ in range(1000):  # as though a second had passed every time
        jobs.admin.execute("update ledger.job set progressed_at = progressed_at + interval '1 second'")
    events = cli.json("jobs", "timeline", key)
    assert [event["seq"] for event in events] == list(range(1, 1004))
