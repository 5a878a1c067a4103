"""Fixtures of objects, shared by all tiers."""

from tests.support.objects.fixtures import *  # noqa: F403
