"""Fixtures of ledger, shared by all tiers."""

from tests.support.jobs.fixtures import *  # noqa: F403
