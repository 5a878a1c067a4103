"""Fixtures of delivery, shared by all tiers."""

from tests.support.delivery.fixtures import *  # noqa: F403
