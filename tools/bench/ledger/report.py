"""The goals of the ledger."""

from functools import partial

from tools.bench.ledger.system import DULY
from tools.bench.report import Goal

of_ours = partial(Goal, variant=DULY)

GOALS = (
    of_ours("drain", "of pgqueuer's", minimum=1.0, peer="pgqueuer"),
    of_ours("drain", "of procrastinate's", minimum=25.0, peer="procrastinate"),
    of_ours("drain", "of DBOS's", minimum=1.5, peer="dbos"),
    of_ours("drain", "of Oban's", minimum=1.5, peer="oban"),
    of_ours("drain2", "of pgqueuer's", minimum=1.3, peer="pgqueuer"),
    of_ours("bulk", "of pgqueuer's", minimum=1.0, peer="pgqueuer"),
    of_ours("single", "of pgqueuer's", minimum=1.0, peer="pgqueuer"),
    of_ours("single16", "of pgqueuer's", minimum=1.0, peer="pgqueuer"),
    of_ours("pickup", "of pgqueuer's", maximum=1.2, figure="p95_ms", peer="pgqueuer"),
    of_ours("waiting", "of our drain", minimum=0.75, base="drain"),
    of_ours("finished", "of our drain", minimum=0.75, base="drain"),
    of_ours("finished10", "of our drain", minimum=0.75, base="drain"),
    of_ours("snapshot", "of our drain", minimum=0.60, base="drain"),
    of_ours("drain", "MB in a worker", maximum=120.0, figure="peak_mb", absolute=True),
)
