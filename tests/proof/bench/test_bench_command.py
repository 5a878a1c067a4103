"""`duly bench` measures, small; no test looks at what it says about speed."""

import json
import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from duly.verify.invariants import check
from duly.verify.machines import CONTRACT_MACHINES
from tests.support.ocr.days import BEFORE, picture
from tests.support.processes import PYTHON, plain_environment
from tools.bench.figures.record import commit_here, machine_here
from tools.bench.ingest import __main__ as ingest
from tools.bench.ingest import content
from tools.bench.ingest import server as ingest_server
from tools.bench.ingest import store as ingest_store
from tools.bench.ledger.__main__ import make_plan
from tools.bench.ledger.peers import PEERS, Peer
from tools.bench.ledger.report import GOALS
from tools.bench.ledger.scenarios import GROUPS, PATHS, STEPS
from tools.bench.ledger.server import open_server
from tools.bench.posts import __main__ as posts
from tools.bench.posts import store
from tools.bench.posts.server import fill
from tools.bench.report import Goal, Measure, evaluate_goals
from tools.bench.verify import __main__ as verify_bench
from tools.bulk_data import build_history, count_events


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, "-m", "duly", "bench", *arguments]
    environment = plain_environment(COLUMNS="100", TERM="dumb", NO_COLOR="1", **variables)
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("name", "first"), [("ledger", "drain"), ("posts", "release"), ("ingest", "drain"), ("all", "ledger")]
)
def test_bench_refuses_an_unknown_scenario_and_lists_the_known_ones(name: str, first: str) -> None:
    answer = run(name, "--only", "sprint")
    assert answer.returncode == 2
    assert f"unknown name 'sprint': choose from {first}," in answer.stderr


# The ledger -----------------------------------------------------------------------------------------------------------


def test_bench_ledger_measures_one_round_of_duly() -> None:
    few = ("--rounds", "1", "--jobs", "60", "--warm-waves", "1")
    answer = run("ledger", "--systems", "duly", "--only", "drain,bulk", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    assert [(each["scenario"], each["variant"]) for each in text["measures"]] == [("drain", "duly"), ("bulk", "duly")]
    assert all(each["figures"]["per_second"] > 0 for each in text["measures"])
    assert all(each["probe_before_ms"] > 0 and each["probe_after_ms"] > 0 for each in text["measures"])
    assert [(goal["scenario"], goal["figure"]) for goal in text["goals"]] == [("drain", "peak_mb")]
    assert "fsync=on, synchronous_commit=on" in text["server"]


@pytest.mark.long
def test_the_other_paths_and_what_each_step_writes() -> None:
    few = ("--rounds", "1", "--path-jobs", "20", "--warm-waves", "1")
    answer = run("ledger", "--systems", "duly", "--only", "paths,steps", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    figures = {each["scenario"]: each["figures"] for each in json.loads(answer.stdout)["measures"]}
    assert list(figures) == [*GROUPS[PATHS], *GROUPS[STEPS]]
    assert all(figures[name]["total_us"] > 0 for name in GROUPS[PATHS])
    for name in GROUPS[STEPS]:
        assert 500 < figures[name]["wal_bytes"] < 5000
        assert 1 < figures[name]["buffers"] < 1000
        assert 1 <= figures[name]["statements"] < 20


def test_growth_is_measured_beside_many_rows_built_once() -> None:
    few = ("--rounds", "1", "--jobs", "60", "--warm-waves", "1", "--waiting-rows", "300", "--finished-rows", "300")
    answer = run("ledger", "--systems", "duly", "--only", "waiting,finished", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    goals = json.loads(answer.stdout)["goals"]
    assert [goal["scenario"] for goal in goals] == ["waiting", "finished", "drain"]


def test_the_plan_of_a_slow_statement_is_kept_with_what_was_measured() -> None:
    with open_server() as server:
        server.admin.execute("select 1")
        assert server.read_slow_plans() == []
        server.admin.execute("do $$ begin perform pg_sleep(0.15); end $$")
        (plan,) = server.read_slow_plans()
        assert re.match(r"1\d\d\.\d+ ms: \tQuery Text: SELECT pg_sleep\(0\.15\)\n\tResult", plan)
        assert server.read_slow_plans() == []


@pytest.mark.parametrize("peer", PEERS.values(), ids=lambda peer: peer.name)
def test_a_peer_with_an_environment_of_its_own_is_pinned_by_hash(peer: Peer) -> None:
    lock = peer.lock.read_text()
    assert f"{peer.requirement} \\\n    --hash=sha256:" in lock
    assert "uvloop==" in lock
    assert "://" not in lock


def test_a_scenario_compared_with_drain_adds_drain_to_the_plan() -> None:
    plan = make_plan(["snapshot"], ["duly", "pgqueuer"])
    assert [(scenario.name, variants) for scenario, variants in plan] == [("drain", ["duly"]), ("snapshot", ["duly"])]


# Posts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_bench_posts_measures_duly_and_the_bare_program() -> None:
    few = ("--posts", "40", "--stored", "50", "--intents", "10", "--clients", "2", "--minute-seconds", "0.5")
    answer = run("posts", "--rounds", "1", "--only", "release,intents", *few, "--warm-waves", "1", "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    assert [(each["scenario"], each["variant"]) for each in text["measures"]] == [
        ("release", "duly"),
        ("release", "bare"),
        ("minute", "duly"),
        ("intents", "duly"),
        ("intents", "bare"),
    ]
    assert [goal["scenario"] for goal in text["goals"]] == ["release", "release", "minute", "intents"]
    assert all(value > 0 for goal in text["goals"] for value in goal["values"])
    assert answer.stderr.count("round 1 ") == len(text["measures"])


def test_bench_posts_growth_compares_few_and_many_stored_posts() -> None:
    plan = posts.BENCH.make_plan(["growth"])
    variants = ("few stored", "many stored")
    assert [(each.name, each.variants) for each in plan] == [("grown-release", variants), ("grown-intents", variants)]


@pytest.mark.breaks_invariants
def test_generated_benchmark_posts_violate_only_the_log_invariants(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        store.add_people(connection, "due-", 20)
        store.add_waiting(connection, "due-", 20, store.read_clock(connection), 1.0)
        assert check(connection, ["duly", "posts", "user"]) == []
        fill(connection, 120)
        violations = {each.invariant for each in check(connection, ["duly", "posts", "user"])}
        assert violations == {"posts_match_the_end_of_their_log", "posts_are_released_by_their_lease_owner"}


# Ingest ---------------------------------------------------------------------------------------------------------------


def test_bench_ingest_measures_duly_and_the_bare_worker() -> None:
    few = ("--sessions", "80", "--days", "10000", "--warm-waves", "1")
    answer = run("ingest", "--rounds", "1", "--only", "drain", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    assert [(each["scenario"], each["variant"]) for each in text["measures"]] == [("drain", "duly"), ("drain", "bare")]
    assert [(goal["scenario"], goal["minimum"]) for goal in text["goals"]] == [("drain", 0.5)]
    assert all(value > 0 for goal in text["goals"] for value in goal["values"])


def test_bench_ingest_growth_compares_few_and_many_days() -> None:
    plan = ingest.BENCH.make_plan(["growth"])
    assert [(each.name, each.variants) for each in plan] == [("grown", ("few days", "many days"))]


def test_generated_sessions_have_distinct_days_and_half_change_theirs() -> None:
    sessions = [content.shown(number, 1000) for number in range(200)]
    assert len({(each.user_id, each.payload["schedule_date"]) for each in sessions}) == 200
    assert sum(each.kind in (content.Kind.NEW, content.Kind.CHANGED) for each in sessions) == 100


@pytest.mark.breaks_invariants
def test_generated_benchmark_days_violate_only_the_log_invariants(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        ingest_store.add_sessions(connection, [content.shown(number, 30) for number in range(20)])
        assert check(connection, ["duly", "schedule_ingest"]) == []
        ingest_server.fill(connection, 30)
        violations = {each.invariant for each in check(connection, ["duly", "schedule_ingest"])}
        assert violations == {
            "captures_are_finished_by_their_lease_owner",
            "captures_match_the_end_of_their_log",
            "notifications_match_their_delivery",
        }


# The scheduler --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_bench_scheduler_measures_passes_due_queries_and_sending() -> None:
    few = ("--schedules", "2000", "--due", "10", "--runs", "1000", "--messages", "100")
    answer = run("scheduler", "--rounds", "1", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    assert [(each["scenario"], each["variant"]) for each in text["measures"]] == [
        ("pass", "few"),
        ("pass", "some"),
        ("pass", "many"),
        ("due", "few"),
        ("due", "many"),
        ("send", "duly"),
        ("send", "bare"),
    ]
    assert all(value > 0 for goal in text["goals"] for value in goal["values"])


# All of them ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_bench_all_writes_raw_figures_charts_and_a_page(tmp_path: Path) -> None:
    answer = run("all", "--quick", "--only", "ledger", "--out", str(tmp_path), "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    assert text["failed"] == []
    written = {file.name for file in tmp_path.iterdir()}
    assert written == {"ledger.data.json", "ledger-throughput.svg", "ledger-latency.svg", "README.md"}
    assert {Path(name).name for name in text["written"]} == written - {"ledger.data.json"}
    stored = (tmp_path / "ledger.data.json").read_bytes()
    assert run("all", "--quick", "--only", "verify", "--out", str(tmp_path)).returncode == 0
    assert (tmp_path / "ledger.data.json").read_bytes() == stored, "only what was asked for is measured again"
    assert "verify.data.json" in (page := (tmp_path / "README.md").read_text())
    assert "ledger.data.json" in page
    assert page.count("- Seed: ") == 2
    record = json.loads((tmp_path / "verify.data.json").read_text())
    assert record["command"] == "duly bench verify --rounds 1 --events 2000"
    assert record["commit"] == commit_here()
    assert record["answer"]["seed"] == verify_bench.BENCH.seed
    assert record["machine"] == machine_here()
    assert f"| {record['commit']} | 1 | " in next(line for line in page.splitlines() if line.startswith("| [verify]"))
    assert "## Proving a large database" in page
    assert all("generated" in file.read_text().splitlines()[0].lower() for file in tmp_path.iterdir())


# Verdicts -------------------------------------------------------------------------------------------------------------


def test_a_verdict_is_the_median_of_the_ratios_per_round() -> None:
    rates = {1: (300.0, 100.0), 2: (100.0, 200.0), 3: (240.0, 200.0)}
    measures = [
        Measure(number, "bulk", variant, {"per_second": rate}, 0.3, 0.3 if number < 3 else 4.0)
        for number, both in rates.items()
        for variant, rate in zip(("duly", "pgqueuer"), both, strict=True)
    ]
    (verdict,) = evaluate_goals(measures, GOALS)
    assert (verdict.values, verdict.median, verdict.is_met) == ([3.0, 0.5, 1.2], 1.2, True)
    assert (verdict.same_disk, verdict.same_disk_median) == ([3.0, 0.5], 1.75)


@pytest.mark.parametrize(("value", "is_met"), [(0.79, False), (0.8, True), (1.0, True), (1.2, True), (1.21, False)])
def test_a_goal_with_two_limits_fails_above_and_below(value: float, is_met: bool) -> None:
    goal = Goal("grown", "of few", "many", minimum=0.8, maximum=1.2)
    assert goal.is_met_by(value) == is_met
    assert goal.limits == "≥ 0.8, ≤ 1.2"


# Verify ---------------------------------------------------------------------------------------------------------------


def test_bench_verify_measures_histories_of_all_domains() -> None:
    answer = run("verify", "--rounds", "1", "--events", "3000", "--json")
    assert answer.returncode == 0, answer.stderr
    text = json.loads(answer.stdout)
    (measure,) = text["measures"]
    assert (measure["scenario"], measure["variant"]) == ("check", "duly")
    assert [(goal["scenario"], goal["figure"], goal["maximum"]) for goal in text["goals"]] == [
        ("check", "check_s", 180)
    ]


def test_generated_histories_cover_every_state_machine_and_violate_no_invariant(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        build_history(connection, 3000)
        assert 2700 < count_events(connection) < 3300
        machines = {machine for (machine,) in connection.execute("select distinct machine from duly.transition")}
        assert {*machines, "job"} == set(CONTRACT_MACHINES)
        assert check(connection, ["duly"]) == []


# Photographs ----------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_bench_ocr_uses_the_settings_and_claims_only_what_was_measured(tmp_path: Path) -> None:
    (tmp_path / "before.jpg").write_bytes(picture("before"))
    shown = [*BEFORE, ("15:00", "16:00", "Jour", "Nils", "Nora")]
    truth = [{"file": "before.jpg", "date_line": "Tisdag 17 mars 2026", "shifts": shown}]
    (tmp_path / "truth.json").write_text(json.dumps(truth))
    answer = run("ocr", "--images", str(tmp_path), "--json", TESSDATA_PREFIX=str(tmp_path))  # no language there
    text = json.loads(answer.stdout)
    (row,) = text["rows"]
    assert (row["way"], text["engines"]) == ("alone", ["rapidocr"])
    assert (row["images"], row["dates"], row["right"], row["times"], row["shifts"]) == (1, 1, 3, 3, 4)
    assert [miss["lost"] for miss in text["missed"]] == [[list(shown[-1])]]
    assert 100 < text["peak_mb"] < 2000
    assert text["cpu_ms"] > 0
    assert [each.split(" = ")[0] for each in text["unmet"]] == [
        "alone: 3 of 4 shifts completely right",
        "alone: 3 of 4 times",
    ]
    assert (answer.returncode, text["met"]) == (1, False)
