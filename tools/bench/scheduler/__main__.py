"""`python -m tools.bench.scheduler`: `duly bench scheduler`."""

from tools.bench.run import Bench
from tools.bench.scheduler.passes import AT_ONCE
from tools.bench.scheduler.report import GOALS
from tools.bench.scheduler.scenarios import CHOICES, SCENARIOS, VARIANTS, Sizes
from tools.bench.scheduler.sending import BATCH
from tools.bench.scheduler.server import open_server

BENCH = Bench(
    prog="duly bench scheduler",
    description="A pass beside many schedules, and sending beside a bare program.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    variants=VARIANTS,
    goals=GOALS,
    open_server=open_server,
    setting=f"one connection, plans and reminders {AT_ONCE} at a time, messages in batches of {BATCH}",
    seed="nothing is drawn by lot",
)
main = BENCH.main

if __name__ == "__main__":
    main()
