"""`python -m tools.bench.posts`: `duly bench posts`."""

from tools.bench.posts.intents import PHOTO_BYTES
from tools.bench.posts.report import GOALS
from tools.bench.posts.scenarios import CHOICES, SCENARIOS, VARIANTS, Sizes
from tools.bench.posts.server import open_server
from tools.bench.posts.worker import BATCH, SLOTS
from tools.bench.run import Bench

BENCH = Bench(
    prog="duly bench posts",
    description="Posts beside a bare program.",
    sizes=Sizes,
    scenarios=SCENARIOS,
    choices=CHOICES,
    variants=VARIANTS,
    goals=GOALS,
    open_server=open_server,
    setting=f"one worker, {SLOTS} slots, batches of {BATCH}, captions only; images of {PHOTO_BYTES:,} bytes",
    seed="nothing is drawn by lot: ids and the bytes of a photo are as they come, and no figure depends on them",
)
main = BENCH.main

if __name__ == "__main__":
    main()
