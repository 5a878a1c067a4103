"""The goals of ingest."""

from tools.bench.ingest.scenarios import BARE, DULY, FEW, MANY
from tools.bench.report import Goal

GOALS = (
    Goal("drain", "of a bare loop's rate", DULY, minimum=0.5, peer=BARE),
    Goal("grown", "many, of the rate with few", MANY, minimum=0.8, maximum=1.2, peer=FEW),
)
