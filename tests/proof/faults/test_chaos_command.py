"""`duly chaos`: what it offers, what it refuses, and the page it writes."""

import json
import subprocess
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.proof.faults import __main__ as command
from tests.proof.faults import report
from tests.proof.faults.crash_sites import PASSED, rounds
from tests.proof.faults.episodes import EPISODES, ORDINARY, Outcome, plan
from tests.proof.faults.faults import FAULTS
from tests.proof.faults.harness import random_for
from tests.proof.faults.report import SURVIVED, as_json, never_occurred, write_report
from tests.support.processes import PYTHON, plain_environment

ABOUT = {"seed": 7, "commit": "abc", "again": "`./duly chaos --minutes 2 --seed 7`"}
COUNTS = {
    "workers killed": 12,
    "clients killed": 1,
    "acknowledged jobs": 40,
    "longest wait of a client (ms)": 700,
    "armed: before_send of outbox": 3,
    "met: before_send of outbox": 2,
}
GOOD = Outcome("everything", 5, 61.0, COUNTS, ["1.00 kill workers"], [])
BAD = Outcome("pooler", 6, 30.0, {"workers killed": 3, "longest wait of a client (ms)": 1900}, [], ["lost: job 1"])
# Every fault that there is to be; a kind that is wanted anew is written here first.
WANTED = """
kill -9 at random
kill -9 at crash points
SIGSTOP past the lease, then SIGCONT
one WORKER_ID for all
postmaster kill -9
immediate stop of the server
backends terminated, the listener's too
commit answer lost, and asked again
half-open connection
PgBouncer in transaction mode
clocks skewed by an hour
handlers that burn the interpreter
handlers that abort
handlers that end by a segmentation fault
handlers that eat memory
SIGTERM storm
disk full
a snapshot held
migration down and up under load
receiver answers 500
receiver answers 429
receiver hangs
receiver cuts after it took the message
storm of answers
storm of intents
"""


def chaos(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [*PYTHON, "-m", "duly", "chaos", *arguments]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=120)


def test_chaos_list_prints_the_episodes() -> None:
    shown = chaos("--list")
    assert shown.returncode == 0
    assert [line.split("  ")[0].strip() for line in shown.stdout.splitlines()] == list(EPISODES)


def test_chaos_refuses_an_unknown_episode_and_lists_the_known_ones() -> None:
    refused = chaos("--only", "locusts")
    assert refused.returncode == 2
    assert "there is no 'locusts'" in refused.stderr
    assert all(name in refused.stderr for name in EPISODES)


def test_chaos_guards_list_prints_the_guards() -> None:
    shown = chaos("--guards", "--list", "--only", "^skip locked")
    assert shown.returncode == 0
    assert "skip locked" in shown.stdout


def test_the_chaos_report_shows_survived_faults_and_the_command_to_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    assert {file.name for file in write_report([GOOD, BAD], {"clocks": "no library"}, ABOUT)} == {
        "chaos.md",
        "chaos.svg",
        "chaos.data.json",
    }
    page = (tmp_path / "chaos.md").read_text()
    assert "**1 violations**" in page
    assert "| kill -9 at random | workers killed | 15 |" in page
    assert "again: `./duly chaos --minutes 2 --seed 7`" in page
    assert "| 1.9 s | 1 |" in page
    row = next(line for line in page.splitlines() if line.startswith("| before_send |"))
    assert row.endswith("| 2 of 3 | 0 of 0 |")
    assert "never passed" in row
    assert "clocks (no library)" in page
    assert "- lost: job 1" in page
    data = json.loads((tmp_path / "chaos.data.json").read_text())
    assert data["totals"]["workers killed"] == 15
    assert "workers killed: 15" in (tmp_path / "chaos.svg").read_text()


def test_chaos_json_contains_violations_and_seconds() -> None:
    document = as_json([GOOD, BAD], {}, ABOUT)
    assert document["violations"] == ["lost: job 1"]
    assert document["seconds"] == 91.0


def test_every_wanted_fault_has_a_report_row_and_no_count_is_used_twice() -> None:
    wanted = WANTED.strip().splitlines()
    assert [fault for fault in wanted if not SURVIVED.get(fault)] == []
    counted = [name for each in SURVIVED.values() for name in each.names]
    assert len(counted) == len(set(counted))


def test_the_chaos_report_names_faults_that_never_occurred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "FIGURES", tmp_path)
    write_report([GOOD], {}, ABOUT)
    never = next(line for line in (tmp_path / "chaos.md").read_text().splitlines() if line.startswith("Faults that"))
    assert "disk full" in never
    assert "kill -9 at random" not in never


def test_every_fault_has_a_description() -> None:
    assert all(fault.about for fault in FAULTS.values())


def test_crash_point_rounds_cover_each_point_once_and_each_work_type_once_per_round() -> None:
    walked = list(rounds(random_for(7)))
    assert sorted(site for sites in walked for site in sites) == PASSED
    assert all(len({site.work for site in sites}) == len(sites) for sites in walked)


def test_a_crash_point_that_was_never_reached_is_reported_as_never_occurred() -> None:
    met = Counter(["crash points met", *(f"met: {site.point} of {site.work}" for site in PASSED)])
    del met["met: after_claim_commit of scheduler"]
    assert "kill -9 at crash points: scheduler.after_claim_commit" in never_occurred(met)
    assert not any("before_send" in each for each in never_occurred(met))


def test_a_fault_of_which_a_part_never_occurred_is_reported() -> None:
    both = Counter(name for counted in SURVIVED.values() for name in counted.decisive)
    assert "commit answer lost, and asked again" not in never_occurred(both)
    del both["commits of workers whose answer was lost"]
    assert "commit answer lost, and asked again" in never_occurred(both)
    assert "SIGSTOP past the lease, then SIGCONT" in never_occurred(Counter({"workers stopped past their lease": 60}))


# Again ----------------------------------------------------------------------------------------------------------------


def test_a_seed_determines_the_plan_of_faults() -> None:
    several = 3 * len(ORDINARY)
    first = list(islice(plan(7, ORDINARY), several))
    assert first == list(islice(plan(7, ORDINARY), several))
    assert [str(step) for step in first] != [str(step) for step in islice(plan(8, ORDINARY), several)]


def test_every_round_of_a_plan_contains_every_fault_once() -> None:
    names = [step.name for step in islice(plan(7, ORDINARY), 2 * len(ORDINARY))]
    assert sorted(names[: len(ORDINARY)]) == sorted(names[len(ORDINARY) :]) == sorted(ORDINARY)


def test_a_violation_is_printed_with_the_command_that_repeats_its_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int, float]] = []

    def run_episode(name: str, seed: int, seconds: float, **_: object) -> Outcome:
        calls.append((name, seed, seconds))
        return Outcome(name, seed, seconds, {}, [], ["lost: job 1"] if name == "full disk" else [])

    monkeypatch.setattr(command, "run_episode", run_episode)
    lines: list[str] = []
    command.run(list(EPISODES), 10.0 * len(EPISODES), 7, lines.append)
    name, seed, seconds = calls[-1]
    assert (name, seconds) == ("full disk", 10.0)
    assert lines[-1].splitlines() == [
        "lost: job 1",
        f"again: ./duly chaos --episode 'full disk' --seed {seed} --seconds 10",
    ]
    command.run(list(EPISODES), 10.0 * len(EPISODES), 7, lines.append)
    assert calls[-1] == (name, seed, seconds)
