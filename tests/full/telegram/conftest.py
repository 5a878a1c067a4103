"""Fixtures of bot, shared by all tiers."""

from tests.support.telegram.fixtures import *  # noqa: F403
