"""What is needed of `duly verify`."""

from bench.report import Need
from bench.verify.scenarios import OURS

NEEDS = (Need("check", "seconds", OURS, limit=180, figure="check_s", absolute=True),)
