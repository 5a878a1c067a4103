"""What is needed of posts."""

from tools.bench.posts.scenarios import BARE, FEW, MANY, OURS
from tools.bench.report import Need

NEEDS = (
    Need("release", "of a bare loop's rate", OURS, least=0.5, peer=BARE),
    Need("release", "p95 of the lag in seconds", OURS, limit=60.0, figure="lag_p95_s", absolute=True),
    Need("minute", "p95 of the lag in seconds", OURS, limit=60.0, figure="lag_p95_s", absolute=True),
    Need("intents", "of a bare insert's rate", OURS, least=0.5, peer=BARE),
    Need("grown-release", "many, of the rate with few", MANY, least=0.8, limit=1.2, peer=FEW),
    Need("grown-intents", "many, of the rate with few", MANY, least=0.8, limit=1.2, peer=FEW),
)
