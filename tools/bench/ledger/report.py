"""What is needed of the ledger."""

from functools import partial

from tools.bench.ledger.side import OURS
from tools.bench.report import Need

of_ours = partial(Need, side=OURS)

NEEDS = (
    of_ours("drain", "of pgqueuer's", least=1.0, peer="pgqueuer"),
    of_ours("drain", "of procrastinate's", least=25.0, peer="procrastinate"),
    of_ours("drain2", "of pgqueuer's", least=1.3, peer="pgqueuer"),
    of_ours("bulk", "of pgqueuer's", least=1.0, peer="pgqueuer"),
    of_ours("single", "of pgqueuer's", least=1.0, peer="pgqueuer"),
    of_ours("single16", "of pgqueuer's", least=1.0, peer="pgqueuer"),
    of_ours("pickup", "of pgqueuer's", limit=1.2, figure="p95_ms", peer="pgqueuer"),
    of_ours("backlog", "of our drain", least=0.75, base="drain"),
    of_ours("finished", "of our drain", least=0.75, base="drain"),
    of_ours("snapshot", "of our drain", least=0.60, base="drain"),
    of_ours("drain", "MB in a worker", limit=120.0, figure="peak_mb", absolute=True),
)
