"""The routes of posts: translate, call the service, translate back.

A post belongs to the person whose key came with the request. What is released everybody with a key may see; what is not
is there for its author alone.
"""

from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Path, Query, Request, Response, status
from pydantic import Discriminator, Field, Tag

from duly.apps.posts import service
from duly.apps.posts.model import MAX_CAPTION_LENGTH, Intent, Status
from duly.apps.posts.slo import Objective, measure
from duly.errors import (
    AlreadyPosted,
    Forbidden,
    IllegalMove,
    InvalidArgument,
    NotFound,
    NotMigrated,
    RateLimited,
    RequestIdReused,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.executors.images import clean
from duly.http.auth import author_of_posts, operator, reader_of_posts, reader_of_requests
from duly.http.dependencies import Decoders, Kept, Opened
from duly.http.envelope import CALLABLE, PLAIN, EnvelopedRoute, envelopes, form_of
from duly.http.problems import refusals
from duly.http.request_limits import GuardedRoute, ImageRoute
from duly.http.types import Asked, Instant, PageQuery, Shown
from duly.outcomes import Existing
from duly.storage.photo import MAX_PHOTO_BYTES, clean_photo

__all__ = ["routers"]

ALWAYS = refusals(Unauthorized, Forbidden, TooLarge, InvalidArgument, Unexpected, NotMigrated, Unavailable)
JPEG = "image/jpeg"


class PhotoRoute(ImageRoute):
    """A route that takes a photograph."""

    max_bytes = MAX_PHOTO_BYTES


intents = APIRouter(prefix="/v1", tags=["posts"], route_class=EnvelopedRoute)
photos = APIRouter(prefix="/v1/posts", tags=["posts"], route_class=PhotoRoute, responses=ALWAYS)
posts = APIRouter(prefix="/v1/posts", tags=["posts"], route_class=GuardedRoute, responses=ALWAYS)
slo = APIRouter(prefix="/v1/slo", tags=["posts"], route_class=GuardedRoute, responses=ALWAYS)
routers = (intents, photos, posts, slo)


async def limited(request: Request, author: Annotated[str, Depends(author_of_posts)]) -> str:
    """Who posts, if not too much at once."""
    request.state.rate.take(author)
    return author


Viewer: TypeAlias = Annotated[str | None, Depends(reader_of_posts)]
Reader: TypeAlias = Annotated[str | None, Depends(reader_of_requests)]
Author: TypeAlias = Annotated[str, Depends(limited)]
PostId: TypeAlias = Annotated[UUID, Path(description="The post's id.")]
Caption = Annotated[str, Field(strict=True, max_length=MAX_CAPTION_LENGTH, pattern=r"^[^\x00]*$")]


# Shapes ------------------------------------------------------------------------------------------------------------


class IntentRequest(Asked):
    """A post that is asked for."""

    imagePath: str = Field(  # noqa: N815
        strict=True,
        max_length=200,
        description="What the upload of the image answered.",
        examples=["temp/6f0c1f3e-6d0b-4b0e-9a52-0d2f7a3b8c11.jpg"],
    )
    caption: Caption = Field(examples=["My day"])
    requestId: UUID = Field(  # noqa: N815
        description="The same request under the same id makes one post, and is answered the same for at least a day."
    )


class CallableRequest(Asked):
    """The same, as clients of Firebase's callable functions send it."""

    data: IntentRequest


AnyIntentRequest: TypeAlias = Annotated[
    Annotated[IntentRequest, Tag(PLAIN)] | Annotated[CallableRequest, Tag(CALLABLE)], Discriminator(form_of), Body()
]


class IntentData(Shown):
    """The post that was made."""

    postId: UUID  # noqa: N815
    status: Status
    releaseTime: str = Field(description="ISO 8601, UTC: six hours after it was made.")  # noqa: N815


class IntentAnswer(Shown):
    """A post was made, now or by the same request before."""

    success: bool
    data: IntentData


class CallableAnswer(Shown):
    """The same, as clients of Firebase's callable functions take it."""

    result: IntentAnswer


class UploadedImage(Shown):
    """An image that waits for a day to become a post."""

    imagePath: str  # noqa: N815


class EditedCaption(Asked):
    """Other words for a post."""

    caption: Caption


class ShownPost(Shown):
    """A post, in the contract's words."""

    postId: UUID = Field(validation_alias="id")  # noqa: N815
    authorId: str = Field(validation_alias="author_id")  # noqa: N815
    status: Status
    caption: str
    imageUrl: str | None = Field(validation_alias="image_url")  # noqa: N815
    createdAt: Instant = Field(validation_alias="created_at")  # noqa: N815
    updatedAt: Instant = Field(validation_alias="updated_at")  # noqa: N815
    releaseTime: Instant | None = Field(validation_alias="release_time")  # noqa: N815
    releasedAt: Instant | None = Field(validation_alias="released_at")  # noqa: N815
    dailyKey: str | None = Field(validation_alias="daily_key")  # noqa: N815
    version: int
    requestId: UUID | None = Field(  # noqa: N815
        validation_alias="request_id", description="Shown to the author and to administrators, else null."
    )
    leaseOwner: str | None = Field(  # noqa: N815
        validation_alias="lease_owner",
        description="The worker that holds it, without the token of its claim; shown to the author and to "
        "administrators, else null.",
    )
    leaseExpiresAt: Instant | None = Field(  # noqa: N815
        validation_alias="lease_expires_at", description="Shown to the author and to administrators, else null."
    )
    processAttempts: int = Field(validation_alias="process_attempts")  # noqa: N815
    ai: dict[str, Any] | None = Field(description="How it was read: mood, music, reasoning, and by what.")
    aiError: str | None = Field(  # noqa: N815
        validation_alias="ai_error", description="Why it was read by the fallback."
    )


class PostPage(Shown):
    """Some posts, the newest first."""

    items: list[ShownPost]
    next: str | None = Field(description="Ask with `?next=` for what follows; null when that was all.")


class PostQuery(PageQuery):
    """Whose posts, and which page of them."""

    author: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Of this person only: with one's own name also what is not released yet. Default: the feed.",
    )


class ShownObjective(Shown):
    """What was promised, and how it stands."""

    name: str
    promise: str
    is_met: bool
    measured: float | None = Field(description="null when there was nothing to measure.")
    target: float
    events: int
    bad: int
    budget_left: float | None = Field(
        description="Of what may go wrong in 30 days: 1 all of it, 0 none, below 0 overdrawn."
    )
    burn_rates: dict[str, float | None] = Field(description="1 uses up the budget in just 30 days.")


# Routes ------------------------------------------------------------------------------------------------------------


@intents.post(
    "/createPostIntent",
    operation_id="createPostIntent",
    summary="Ask for today's post",
    responses=envelopes(
        InvalidArgument,
        Unauthorized,
        Forbidden,
        AlreadyPosted,
        RequestIdReused,
        TooLarge,
        RateLimited,
        Unexpected,
        Unavailable,
    ),
)
async def create_post_intent(
    request: Request, body: AnyIntentRequest, author: Author, pool: Opened, objects: Kept, response: Response
) -> IntentAnswer | CallableAnswer:
    """One per author and UTC day, released six hours later; needs the scope `posts:write` and a person's key.

    Also in the form of Firebase's callable functions: `{"data": ...}` is answered with `{"result": ...}`.
    """
    request.state.is_callable = isinstance(body, CallableRequest)
    asked = body.data if isinstance(body, CallableRequest) else body
    intent = Intent(author, asked.imagePath, asked.caption, asked.requestId)
    creation = await service.create_intent(pool, objects, intent)
    if isinstance(creation, Existing):
        response.headers["Duly-Replayed"] = "true"
    answer = IntentAnswer(success=True, data=IntentData.model_validate(creation.row))
    return CallableAnswer(result=answer) if isinstance(body, CallableRequest) else answer


@photos.post(
    "/images",
    operation_id="upload_image",
    summary="Upload the image of a post",
    status_code=status.HTTP_201_CREATED,
    responses=refusals(NotFound, RateLimited),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The photograph itself: JPEG, PNG or WebP, at most 20 MiB. What it says of place and camera "
            "is removed.",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}} for kind in (JPEG, "image/png", "image/webp")
            },
        }
    },
)
async def upload_image(
    request: Request, author: Author, pool: Opened, objects: Kept, children: Decoders
) -> UploadedImage:
    """It waits a day to become a post; needs the scope `posts:write` and a person's key."""
    if request.headers.get("content-type", "").lstrip().lower().startswith("multipart/"):
        raise InvalidArgument(
            "the body is a form, and must be the photograph; send the file itself: curl --data-binary @x.jpg, not -F"
        )
    photo = await clean(children, clean_photo, await request.body())
    return UploadedImage(imagePath=await service.upload_image(pool, objects, author, photo))


@posts.get("", operation_id="list_posts", summary="List posts, the newest first")
async def list_posts(query: Annotated[PostQuery, Query()], viewer: Viewer, reader: Reader, pool: Opened) -> PostPage:
    """What is released, or one person's posts; needs the scope `posts:read`."""
    page = await service.list_posts(
        pool, viewer, author=query.author, place=query.next, limit=query.limit, reader=reader
    )
    return PostPage.model_validate(page)


@posts.get("/{post_id}", operation_id="get_post", summary="Show a post", responses=refusals(NotFound))
async def get_post(post_id: PostId, viewer: Viewer, reader: Reader, pool: Opened) -> ShownPost:
    """One that is released, or one's own; needs the scope `posts:read`."""
    return ShownPost.model_validate(await service.get_post(pool, viewer, post_id, reader=reader))


@posts.get(
    "/{post_id}/image",
    operation_id="get_post_image",
    summary="Show the image of a post",
    response_class=Response,
    responses={200: {"content": {JPEG: {"schema": {"type": "string", "format": "binary"}}}}, **refusals(NotFound)},
)
async def get_post_image(post_id: PostId, viewer: Viewer, pool: Opened, objects: Kept) -> Response:
    """Of a post that is released, or of one's own; needs the scope `posts:read`."""
    return Response(await service.get_image(pool, objects, viewer, post_id), media_type=JPEG)


@posts.patch(
    "/{post_id}", operation_id="edit_caption", summary="Change a caption", responses=refusals(NotFound, IllegalMove)
)
async def edit_caption(
    post_id: PostId,
    body: Annotated[EditedCaption, Body()],
    author: Annotated[str, Depends(author_of_posts)],
    pool: Opened,
) -> ShownPost:
    """Of one's own post, while it is PENDING; needs the scope `posts:write` and a person's key."""
    return ShownPost.model_validate(await service.edit_caption(pool, author, post_id, body.caption))


@slo.get("", operation_id="get_slo", summary="Show how the promises stand", dependencies=[Depends(operator)])
async def get_slo(pool: Opened) -> list[ShownObjective]:
    """Intents that succeed, how late posts appear, and that none is stuck; needs the scope `posts:read`."""
    found: list[Objective] = await measure(pool)
    return [ShownObjective.model_validate(each) for each in found]
