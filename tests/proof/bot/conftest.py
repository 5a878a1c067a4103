"""Fixtures of bot, shared by all tiers."""

from tests.support.bot.fixtures import *  # noqa: F403
