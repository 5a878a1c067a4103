"""`python -m tools.bench.verify`: what `duly bench verify` becomes."""

from tools.bench.run import Bench
from tools.bench.verify.ground import open_ground
from tools.bench.verify.report import NEEDS
from tools.bench.verify.scenarios import CHOICES, SCENARIOS, SIDES, Sizes

BENCH = Bench(
    prog="duly bench verify",
    description="Every law over the histories of all domains.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    sides=SIDES,
    needs=NEEDS,
    open_ground=open_ground,
    setting="one connection; half of the events are of jobs, the rest of messages, runs, posts, captures and days",
    seed="nothing is drawn by lot: event n is the same in every run",
)
main = BENCH.main

if __name__ == "__main__":
    main()
