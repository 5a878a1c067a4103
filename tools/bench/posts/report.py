"""The goals of posts."""

from tools.bench.posts.scenarios import BARE, DULY, FEW, MANY
from tools.bench.report import Goal

GOALS = (
    Goal("release", "of a bare loop's rate", DULY, minimum=0.5, peer=BARE),
    Goal("release", "p95 of the lag in seconds", DULY, maximum=60.0, figure="lag_p95_s", absolute=True),
    Goal("minute", "p95 of the lag in seconds", DULY, maximum=60.0, figure="lag_p95_s", absolute=True),
    Goal("intents", "of a bare insert's rate", DULY, minimum=0.5, peer=BARE),
    Goal("grown-release", "many, of the rate with few", MANY, minimum=0.8, maximum=1.2, peer=FEW),
    Goal("grown-intents", "many, of the rate with few", MANY, minimum=0.8, maximum=1.2, peer=FEW),
)
