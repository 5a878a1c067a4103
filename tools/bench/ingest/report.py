"""What is needed of ingest."""

from tools.bench.ingest.scenarios import BARE, FEW, MANY, OURS
from tools.bench.report import Need

NEEDS = (
    Need("drain", "of a bare loop's rate", OURS, least=0.5, peer=BARE),
    Need("grown", "many, of the rate with few", MANY, least=0.8, limit=1.2, peer=FEW),
)
