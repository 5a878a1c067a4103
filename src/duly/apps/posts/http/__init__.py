"""The HTTP routes of posts, and what they need while the API runs: the counter of intents' outcomes."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from duly.apps.posts.http import metrics, routes
from duly.apps.posts.http.envelope import IntentOutcomes
from duly.db.pool import Pool
from duly.http.application import HttpPart, State


@asynccontextmanager
async def open_state(pool: Pool) -> AsyncGenerator[State, None]:
    """Open the counter of outcomes."""
    async with IntentOutcomes(pool).flushing() as intent_outcomes:
        yield {"intent_outcomes": intent_outcomes}


HTTP = HttpPart((routes.intents, routes.photos, routes.posts, routes.slo, metrics.router), open_state)
