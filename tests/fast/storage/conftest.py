"""Fixtures of objects, shared by all tiers."""

from tests.support.storage.fixtures import *  # noqa: F403
