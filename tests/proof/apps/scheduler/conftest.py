"""Fixtures of scheduler, shared by all tiers."""

from tests.support.scheduler.fixtures import *  # noqa: F403
