"""`duly bench ledger` measures, small; no test looks at what it says about speed."""

import json
import subprocess

from bench.ledger.__main__ import plan_of
from bench.ledger.report import Measure, verdicts_of
from tests.support.processes import PYTHON, plain_environment


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*PYTHON, "-m", "duly", "bench", "ledger", *arguments]
    return subprocess.run(command, env=plain_environment(), capture_output=True, text=True)


def test_our_side_of_one_round() -> None:
    few = ("--rounds", "1", "--jobs", "60", "--warm-waves", "1")
    answer = run("--sides", "duly", "--only", "drain,bulk", *few, "--json")
    assert answer.returncode == 0, answer.stderr
    told = json.loads(answer.stdout)
    assert [(each["scenario"], each["side"]) for each in told["measures"]] == [("drain", "duly"), ("bulk", "duly")]
    assert all(each["figures"]["per_second"] > 0 for each in told["measures"])
    assert all(each["probe_before_ms"] > 0 and each["probe_after_ms"] > 0 for each in told["measures"])
    assert [(need["scenario"], need["figure"]) for need in told["needs"]] == [("drain", "peak_mb")]
    assert "fsync=on, synchronous_commit=on" in told["server"]


def test_a_scenario_that_there_is_not_is_refused_with_those_there_are() -> None:
    answer = run("--only", "sprint")
    assert answer.returncode == 2
    assert "there is no 'sprint': choose from drain," in answer.stderr


def test_what_is_compared_with_our_own_drain_brings_that_drain_along() -> None:
    plan = plan_of(["snapshot"], ["duly", "pgqueuer"])
    assert [(scenario.name, sides) for scenario, sides in plan] == [("drain", ["duly"]), ("snapshot", ["duly"])]


def test_a_ratio_is_between_figures_of_one_round_and_the_median_counts() -> None:
    rates = {1: (300.0, 100.0), 2: (100.0, 200.0), 3: (240.0, 200.0)}
    measures = [
        Measure(number, "bulk", side, {"per_second": rate}, 0.3, 0.3 if number < 3 else 4.0)
        for number, both in rates.items()
        for side, rate in zip(("duly", "pgqueuer"), both, strict=True)
    ]
    (verdict,) = verdicts_of(measures)
    assert (verdict.values, verdict.median, verdict.is_met) == ([3.0, 0.5, 1.2], 1.2, True)
    assert (verdict.alike, verdict.median_alike) == ([3.0, 0.5], 1.75)
