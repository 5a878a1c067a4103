"""Dependencies of the routes that take or serve images."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.executors.process_pool import ProcessPool
from duly.storage import ObjectStore


async def get_object_store(request: Request) -> ObjectStore:
    """Return the object store that has the images."""
    return request.state.objects


async def get_image_decoder(request: Request) -> ProcessPool:
    """Return the child processes that decode untrusted images."""
    return request.state.image_decoder


ObjectStoreDep: TypeAlias = Annotated[ObjectStore, Depends(get_object_store)]
ImageDecoderDep: TypeAlias = Annotated[ProcessPool, Depends(get_image_decoder)]
