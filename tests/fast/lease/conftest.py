"""Fixtures of the conformance tests, shared by all tiers."""

from tests.support.conformance.fixtures import *  # noqa: F403
