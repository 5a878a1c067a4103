"""Fixtures for tests of jobs, shared by all tiers."""

from tests.support.jobs.fixtures import *  # noqa: F403
