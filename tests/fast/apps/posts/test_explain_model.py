"""Random states: what explain calls claimable is what is claimed next, and nothing else."""

import pytest

from duly.db.pool import Pool
from tests.fast.apps.posts.test_explain import pool
from tests.support.explain.posts import check_posts
from tests.support.posts.actions import PostActions

__all__ = ["pool"]

SEEDS = range(5)


@pytest.mark.breaks_invariants
async def test_rows_explained_as_claimable_are_exactly_the_rows_claimed(posts: PostActions, pool: Pool) -> None:
    for seed in SEEDS:
        await check_posts(seed, posts, pool)
