"""Fixtures of bot tests, shared by all tiers."""

from tests.support.telegram.fixtures import *  # noqa: F403
