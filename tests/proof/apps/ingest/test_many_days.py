"""20,000 random pairs of days: no change without an event, no untrue sentence, none about what stayed the same."""

from random import Random

import pytest

from tests.fast.apps.ingest.test_sentences import messages, step_between
from tests.support.ingest.seen_days import change_day, random_day
from tests.support.ingest.sentence_checker import PHRASES, find_faults

PAIRS = 500  # a few seconds of CPU: a test of minutes meets its time limit on a busy machine


@pytest.mark.parametrize("seed", range(40))
def test_every_change_of_a_day_has_a_true_sentence(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 (a day, not a secret)
    for _ in range(PAIRS):
        before = random_day(chance)
        after = change_day(chance, before)
        step = step_between(before, after, chance)
        assert bool(step.events) == ({*before} != {*after})
        for language in PHRASES:
            assert find_faults(before, after, messages(step, language), language) == []
