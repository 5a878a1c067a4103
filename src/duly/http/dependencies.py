"""Dependencies for what the application opens when it starts."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.db.pool import Pool


async def get_pool(request: Request) -> Pool:
    """Return the connection pool."""
    return request.state.pool


PoolDep: TypeAlias = Annotated[Pool, Depends(get_pool)]
