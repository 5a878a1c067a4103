"""What is needed of the scheduler and of the sender."""

from tools.bench.report import Need
from tools.bench.scheduler.scenarios import BARE, FEW, MANY, OURS, SOME

NEEDS = (
    Need("pass", "some, of the rate with few", SOME, least=0.7, limit=1.3, peer=FEW),
    Need("pass", "many, of the rate with few", MANY, least=0.7, limit=1.3, peer=FEW),
    Need("due", "many, of the rate with few", MANY, least=0.7, limit=1.3, peer=FEW),
    Need("send", "of a bare loop's rate", OURS, least=0.5, peer=BARE),
)
