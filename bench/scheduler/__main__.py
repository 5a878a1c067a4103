"""`python -m bench.scheduler`: what `duly bench scheduler` becomes."""

from bench.run import Bench
from bench.scheduler.ground import open_ground
from bench.scheduler.passes import AT_ONCE
from bench.scheduler.report import NEEDS
from bench.scheduler.scenarios import CHOICES, SCENARIOS, SIDES, Sizes
from bench.scheduler.sending import BATCH

BENCH = Bench(
    prog="duly bench scheduler",
    description="A pass beside many schedules, and sending beside a bare program.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    sides=SIDES,
    needs=NEEDS,
    open_ground=open_ground,
    setting=f"one connection, plans and reminders {AT_ONCE} at a time, messages in batches of {BATCH}",
    seed="nothing is drawn by lot",
)
main = BENCH.main

if __name__ == "__main__":
    main()
