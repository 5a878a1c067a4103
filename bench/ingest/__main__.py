"""`python -m bench.ingest`: what `duly bench ingest` becomes."""

from bench.ingest.content import SEED
from bench.ingest.ground import open_ground
from bench.ingest.report import NEEDS
from bench.ingest.scenarios import CHOICES, SCENARIOS, SIDES, Sizes
from bench.ingest.worker import BATCH, SLOTS
from bench.run import Bench

BENCH = Bench(
    prog="duly bench ingest",
    description="Ingest beside a bare program.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    sides=SIDES,
    needs=NEEDS,
    open_ground=open_ground,
    setting=f"one worker, {SLOTS} slots, batches of {BATCH}; sessions given as data, half of them a change",
    seed=f"{SEED}, and for the shifts of a day the number of that day",
)
main = BENCH.main

if __name__ == "__main__":
    main()
