"""Medians are of rounds with one plan, and a server's CPU time is that of the work that was measured."""

from dataclasses import replace

import pytest

from tools.bench.processes import ServerCpu
from tools.bench.report import Goal, Measure, evaluate_goals, find_flips, format_table

PLANS = ["2300 ms: Nested Loop"]
GOAL = Goal("drain", "of pgqueuer's", "duly", minimum=1.0, peer="pgqueuer")


def measure(number: int, variant: str, rate: float, server_us: float) -> Measure:
    return Measure(number, "drain", variant, {"per_second": rate, "server_us": server_us}, 0.3, 0.3, PLANS)


def rounds(ours: list[tuple[float, float]], theirs: list[tuple[float, float]]) -> list[Measure]:
    return [
        measure(number, variant, *figures)
        for variant, several in (("duly", ours), ("pgqueuer", theirs))
        for number, figures in enumerate(several, 1)
    ]


def test_a_round_in_which_a_peers_plan_flipped_is_left_out_and_listed() -> None:
    measures = rounds([(90, 70), (90, 75), (110, 72)], [(100, 25), (1, 2500), (100, 24)])
    assert find_flips(measures) == {(2, "drain", "pgqueuer"): pytest.approx(104, abs=1)}
    (verdict,) = evaluate_goals(measures, [GOAL])
    assert (verdict.values, verdict.flipped, verdict.is_met) == ([0.9, 1.1], [90.0], True)
    table = format_table(measures, {"drain": "drain"}, ["duly", "pgqueuer"], [GOAL])
    assert "| drain: pgqueuer | 2 | 2,500 | 104.2 | 1/s |" in table
    assert "1.00 [0.90-1.10]; 1 of 3 left out" in table
    assert "| drain: per second | 90 [90-110] | 100 [100-100] |" in table


def test_a_plan_of_our_own_that_flips_is_a_miss_however_good_the_other_rounds_are() -> None:
    (verdict,) = evaluate_goals(rounds([(200, 70), (50, 250)], [(100, 25), (100, 25)]), [GOAL])
    assert (verdict.median, verdict.own_flips, verdict.is_met) == (2.0, 1, False)


def test_load_is_no_flip_and_one_round_has_nothing_to_be_compared_with() -> None:
    assert find_flips(rounds([(90, 70), (60, 110)], [(100, 25), (80, 40)])) == {}
    assert find_flips(rounds([(90, 700)], [(1, 2500)])) == {}
    without = [replace(each, slow_plans=[]) for each in rounds([(90, 70), (90, 700)], [])]
    assert find_flips(without) == {}, "the server logged no slow statement"


def test_a_backend_that_ended_is_charged_only_with_what_it_used_meanwhile() -> None:
    earlier = ServerCpu({1: 5.0, 2: 3.0, 3: 0.5}, ended=10.0)
    later = ServerCpu({1: 5.25, 3: 1.0, 4: 0.125}, ended=13.0)  # 2 ended, having used nothing more; 4 is new
    assert later.seconds_since(earlier) == 0.25 + 0.5 + 0.125
    assert ServerCpu({}, ended=9.5).seconds_since(ServerCpu({2: 3.0}, ended=6.0)) == 0.5
