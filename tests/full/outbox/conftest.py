"""Fixtures of delivery, shared by all tiers."""

from tests.support.outbox.fixtures import *  # noqa: F403
