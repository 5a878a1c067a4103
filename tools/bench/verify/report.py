"""The goal of `duly verify`."""

from tools.bench.report import Goal
from tools.bench.verify.scenarios import DULY

GOALS = (Goal("check", "seconds", DULY, maximum=180, figure="check_s", absolute=True),)
