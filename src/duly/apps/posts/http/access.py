"""The access rules of posts: whose posts a request is about."""

from typing import Annotated, TypeAlias

from fastapi import Depends, Request

from duly.apps.posts.repository import ADMIN_VIEWER
from duly.http.auth import ADMIN, AccessRule, Caller, PersonAccessRule, find_known_uid, person_required, require_scope

READ, WRITE = "posts:read", "posts:write"


@PersonAccessRule
async def posts_viewer(request: Request) -> str | None:
    """Return the person who views posts; a key without a person sees released posts only."""
    require_scope(request.state.caller, READ)
    return await find_known_uid(request)


async def posts_private_viewer(request: Request, viewer: Annotated[str | None, Depends(posts_viewer)]) -> str | None:
    """Return who sees request ids and leases of posts: their author, and an administrator those of every author."""
    return ADMIN_VIEWER if ADMIN in request.state.caller.scopes else viewer


@PersonAccessRule
async def posts_author(request: Request) -> str:
    """Return the author whose posts are changed."""
    return await find_author(request)


async def find_author(request: Request) -> str:
    """Return the person who posts; raises Forbidden when the key has no person or lacks the scope."""
    require_scope(request.state.caller, WRITE)
    if uid := await find_known_uid(request):
        return uid
    raise person_required("posts", WRITE)


@AccessRule
async def metrics_reader(request: Request) -> Caller:
    """Return the caller who reads the objectives of the installation."""
    caller: Caller = request.state.caller
    require_scope(caller, READ)
    return caller


@PersonAccessRule
async def rate_limited_author(request: Request) -> str:
    """Return the person who posts; raises RateLimited."""
    author = await find_author(request)
    request.state.rate_limiter.acquire(author)
    return author


Viewer: TypeAlias = Annotated[str | None, Depends(posts_viewer)]
PrivateViewer: TypeAlias = Annotated[str | None, Depends(posts_private_viewer)]
Author: TypeAlias = Annotated[str, Depends(rate_limited_author)]
Editor: TypeAlias = Annotated[str, Depends(posts_author)]
