"""What is needed of `duly verify`."""

from tools.bench.report import Need
from tools.bench.verify.scenarios import OURS

NEEDS = (Need("check", "seconds", OURS, limit=180, figure="check_s", absolute=True),)
