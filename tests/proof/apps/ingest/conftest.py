"""Fixtures of ingest, shared by all tiers."""

from tests.support.ingest.fixtures import *  # noqa: F403
