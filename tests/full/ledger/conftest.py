"""Fixtures of ledger, shared by all tiers."""

from tests.support.ledger.fixtures import *  # noqa: F403
