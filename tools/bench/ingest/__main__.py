"""`python -m tools.bench.ingest`: `duly bench ingest`."""

from tools.bench.ingest.content import SEED
from tools.bench.ingest.report import GOALS
from tools.bench.ingest.scenarios import CHOICES, SCENARIOS, VARIANTS, Sizes
from tools.bench.ingest.server import open_server
from tools.bench.ingest.worker import BATCH, SLOTS
from tools.bench.run import Bench

BENCH = Bench(
    prog="duly bench ingest",
    description="Ingest beside a bare program.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    variants=VARIANTS,
    goals=GOALS,
    open_server=open_server,
    setting=f"one worker, {SLOTS} slots, batches of {BATCH}; sessions given as data, half of them a change",
    seed=f"{SEED}, and for the shifts of a day the number of that day",
)
main = BENCH.main

if __name__ == "__main__":
    main()
