"""`python -m tools.bench.verify`: `duly bench verify`."""

from tools.bench.run import Bench
from tools.bench.verify.report import GOALS
from tools.bench.verify.scenarios import CHOICES, SCENARIOS, VARIANTS, Sizes
from tools.bench.verify.server import open_server

BENCH = Bench(
    prog="duly bench verify",
    description="Every invariant over the histories of all domains.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    variants=VARIANTS,
    goals=GOALS,
    open_server=open_server,
    setting="one connection; half of the events are of jobs, the rest of messages, runs, posts, captures and days",
    seed="nothing is drawn by lot: event n is the same in every run",
)
main = BENCH.main

if __name__ == "__main__":
    main()
