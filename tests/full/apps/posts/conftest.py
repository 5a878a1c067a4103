"""Fixtures of posts, shared by all tiers."""

from tests.support.posts.fixtures import *  # noqa: F403
