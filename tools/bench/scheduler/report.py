"""The goals of the scheduler and of the sender."""

from tools.bench.report import Goal
from tools.bench.scheduler.scenarios import BARE, DULY, FEW, MANY, SOME

GOALS = (
    Goal("pass", "some, of the rate with few", SOME, minimum=0.7, maximum=1.3, peer=FEW),
    Goal("pass", "many, of the rate with few", MANY, minimum=0.7, maximum=1.3, peer=FEW),
    Goal("due", "many, of the rate with few", MANY, minimum=0.7, maximum=1.3, peer=FEW),
    Goal("send", "of a bare loop's rate", DULY, minimum=0.5, peer=BARE),
)
