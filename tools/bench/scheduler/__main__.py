"""`python -m tools.bench.scheduler`: what `duly bench scheduler` becomes."""

from tools.bench.run import Bench
from tools.bench.scheduler.ground import open_ground
from tools.bench.scheduler.passes import AT_ONCE
from tools.bench.scheduler.report import NEEDS
from tools.bench.scheduler.scenarios import CHOICES, SCENARIOS, SIDES, Sizes
from tools.bench.scheduler.sending import BATCH

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
