"""What the application opened when it started, for routes to ask for."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.db.pool import Pool
from duly.executors.process_pool import Children
from duly.storage import Objects

__all__ = ["Decoders", "Kept", "Opened", "Schema"]


async def pool_of(request: Request) -> Pool:
    """The pool that the application opened."""
    return request.state.pool


async def objects_of(request: Request) -> Objects:
    """Where images are kept."""
    return request.state.objects


async def children_of(request: Request) -> Children:
    """Who decode the pictures of strangers."""
    return request.state.children


async def schema_of(request: Request) -> str:
    """The schema that holds the ingest tables."""
    return request.state.ingest_schema


Opened: TypeAlias = Annotated[Pool, Depends(pool_of)]
Kept: TypeAlias = Annotated[Objects, Depends(objects_of)]
Schema: TypeAlias = Annotated[str, Depends(schema_of)]
Decoders: TypeAlias = Annotated[Children, Depends(children_of)]
