"""What the application opened when it started, for routes to ask for."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.db.pool import Pool
from duly.objects import Objects

__all__ = ["Kept", "Opened"]


def pool_of(request: Request) -> Pool:
    """The pool that the application opened."""
    return request.state.pool


def objects_of(request: Request) -> Objects:
    """Where images are kept."""
    return request.state.objects


Opened: TypeAlias = Annotated[Pool, Depends(pool_of)]
Kept: TypeAlias = Annotated[Objects, Depends(objects_of)]
