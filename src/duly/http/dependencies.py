"""Dependencies for what the application opens when it starts."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.db.pool import Pool
from duly.executors.process_pool import ProcessPool
from duly.storage import ObjectStore


async def get_pool(request: Request) -> Pool:
    """Return the connection pool."""
    return request.state.pool


async def get_object_store(request: Request) -> ObjectStore:
    """Return the object store that has the images."""
    return request.state.objects


async def get_image_decoder(request: Request) -> ProcessPool:
    """Return the child processes that decode untrusted images."""
    return request.state.image_decoder


PoolDep: TypeAlias = Annotated[Pool, Depends(get_pool)]
ObjectStoreDep: TypeAlias = Annotated[ObjectStore, Depends(get_object_store)]
ImageDecoderDep: TypeAlias = Annotated[ProcessPool, Depends(get_image_decoder)]
