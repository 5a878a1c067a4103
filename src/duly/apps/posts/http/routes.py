"""The routes of posts.

A post belongs to the person of the API key. Released posts are visible to every key, others to their author only.
"""

from typing import Annotated, Any, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Body, Depends, Header, Path, Query, Request, Response, status
from pydantic import Discriminator, Field, Tag
from pydantic.json_schema import SkipJsonSchema

from duly.apps.posts import service
from duly.apps.posts.http.access import Author, Editor, PrivateViewer, Viewer, metrics_reader
from duly.apps.posts.http.envelope import CALLABLE, PLAIN, EnvelopedRoute, detect_form, failure_responses
from duly.apps.posts.model import MAX_CAPTION_LENGTH, Intent, PostStatus
from duly.apps.posts.slo import Objective, measure
from duly.errors import (
    AlreadyPosted,
    Forbidden,
    IllegalTransition,
    InvalidArgument,
    NotFound,
    RateLimited,
    RequestIdReused,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unexpected,
)
from duly.executors.images import decode_image
from duly.http.dependencies import PoolDep
from duly.http.images import ImageDecoderDep, ObjectStoreDep
from duly.http.problems import COMMON_PROBLEMS, problem_responses
from duly.http.request_limits import GuardedRoute, ImageRoute
from duly.http.types import Instant, NextCursor, PageQuery, RequestModel, ResponseModel, choose_idempotency_key
from duly.outcomes import Existing
from duly.storage.photo import MAX_PHOTO_BYTES, clean_photo

JPEG = "image/jpeg"


class PhotoRoute(ImageRoute):
    """A route that accepts a photo as its body."""

    max_bytes = MAX_PHOTO_BYTES


intents = APIRouter(prefix="/v1", tags=["posts"], route_class=EnvelopedRoute)
photos = APIRouter(prefix="/v1/posts", tags=["posts"], route_class=PhotoRoute, responses=COMMON_PROBLEMS)
posts = APIRouter(prefix="/v1/posts", tags=["posts"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)
slo = APIRouter(prefix="/v1/slo", tags=["posts"], route_class=GuardedRoute, responses=COMMON_PROBLEMS)


PostId: TypeAlias = Annotated[UUID, Path(description="The post's id.")]
Caption = Annotated[str, Field(strict=True, max_length=MAX_CAPTION_LENGTH, pattern=r"^[^\x00]*$")]


# Models ---------------------------------------------------------------------------------------------------------------


class IntentRequest(RequestModel):
    """A post to create."""

    imagePath: str = Field(  # noqa: N815
        strict=True,
        max_length=200,
        description="`imagePath` of the uploaded image.",
        examples=["temp/6f0c1f3e-6d0b-4b0e-9a52-0d2f7a3b8c11.jpg"],
    )
    caption: Caption = Field(examples=["My day"])
    requestId: UUID | SkipJsonSchema[None] = Field(  # noqa: N815
        default=None, description="The idempotency key, where the header `Idempotency-Key` is not sent."
    )


class CallableRequest(RequestModel):
    """The same in the form of Firebase's callable functions."""

    data: IntentRequest


AnyIntentRequest: TypeAlias = Annotated[
    Annotated[IntentRequest, Tag(PLAIN)] | Annotated[CallableRequest, Tag(CALLABLE)], Discriminator(detect_form), Body()
]
RequestId: TypeAlias = Annotated[
    UUID | None,
    Header(
        alias="Idempotency-Key",
        description="The same request under the same key creates one post, and gets the same response for a day.",
    ),
]


class IntentData(ResponseModel):
    """The post that was created."""

    postId: UUID  # noqa: N815
    status: PostStatus
    releaseTime: str = Field(description="ISO 8601, UTC: six hours after its creation.")  # noqa: N815


class IntentResponse(ResponseModel):
    """A post was created, by this request or by the same request before."""

    success: bool
    data: IntentData


class CallableResponse(ResponseModel):
    """The same in the form of Firebase's callable functions."""

    result: IntentResponse


class UploadedImageResponse(ResponseModel):
    """An uploaded image, kept for a day unless a post uses it."""

    imagePath: str  # noqa: N815


class CaptionRequest(RequestModel):
    """A new caption."""

    caption: Caption


class PostResponse(ResponseModel):
    """A post, with the field names of the contract."""

    postId: UUID = Field(validation_alias="id")  # noqa: N815
    authorId: str = Field(validation_alias="author_id")  # noqa: N815
    status: PostStatus
    caption: str
    imageUrl: str | None = Field(validation_alias="image_url")  # noqa: N815
    createdAt: Instant = Field(validation_alias="created_at")  # noqa: N815
    updatedAt: Instant = Field(validation_alias="updated_at")  # noqa: N815
    releaseTime: Instant | None = Field(validation_alias="release_time")  # noqa: N815
    releasedAt: Instant | None = Field(validation_alias="released_at")  # noqa: N815
    dailyKey: str | None = Field(validation_alias="daily_key")  # noqa: N815
    version: int
    requestId: UUID | None = Field(  # noqa: N815
        validation_alias="request_id", description="Visible to the author and to administrators, else null."
    )
    leaseOwner: str | None = Field(  # noqa: N815
        validation_alias="lease_owner",
        description="The worker that has leased it, without the token of its claim; visible to the author and to "
        "administrators, else null.",
    )
    leaseExpiresAt: Instant | None = Field(  # noqa: N815
        validation_alias="lease_expires_at", description="Visible to the author and to administrators, else null."
    )
    processAttempts: int = Field(validation_alias="process_attempts")  # noqa: N815
    ai: dict[str, Any] | None = Field(description="The analysis: mood, music, reasoning, and the model.")
    aiError: str | None = Field(  # noqa: N815
        validation_alias="ai_error", description="Why the fallback analysed it."
    )


class PostPage(ResponseModel):
    """A page of posts, the newest first."""

    items: list[PostResponse]
    next: NextCursor


class PostQuery(PageQuery):
    """Author and page of a list of posts."""

    author: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}$",
        description="Posts of this person only, for oneself also those not released yet. Default: the feed.",
    )


class ObjectiveResponse(ResponseModel):
    """A service level objective and its current value."""

    name: str
    promise: str
    is_met: bool
    measured: float | None = Field(description="null without events.")
    target: float
    events: int
    bad: int
    budget_left: float | None = Field(
        description="Remaining error budget of 30 days: 1 is all of it, 0 none, below 0 overspent."
    )
    burn_rates: dict[str, float | None] = Field(description="By window; 1 spends the budget in exactly 30 days.")


# Routes ---------------------------------------------------------------------------------------------------------------


@intents.post(
    "/createPostIntent",
    operation_id="createPostIntent",
    summary="Create today's post",
    responses=failure_responses(
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
    request: Request,
    body: AnyIntentRequest,
    author: Author,
    pool: PoolDep,
    objects: ObjectStoreDep,
    response: Response,
    key: RequestId = None,
) -> IntentResponse | CallableResponse:
    """One per author and UTC day, released six hours later; needs the scope `posts:write` and a person's key.

    Also in the form of Firebase's callable functions: the response to `{"data": ...}` is `{"result": ...}`.
    """
    request.state.is_callable = isinstance(body, CallableRequest)
    fields = body.data if isinstance(body, CallableRequest) else body
    request_id = choose_request_id(key, fields.requestId)
    intent = Intent(author, fields.imagePath, fields.caption, request_id)
    creation = await service.create_intent(pool, objects, intent)
    if isinstance(creation, Existing):
        response.headers["Duly-Replayed"] = "true"
    result = IntentResponse(success=True, data=IntentData.model_validate(creation.row))
    return CallableResponse(result=result) if isinstance(body, CallableRequest) else result


def choose_request_id(header: UUID | None, field: UUID | None) -> UUID:
    """Return the request id of the header or of the body; InvalidArgument when it is missing or they differ."""
    chosen = choose_idempotency_key(header and str(header), field and str(field), "requestId")
    if chosen is None:
        raise InvalidArgument("requestId: must be a UUID, here or in the header Idempotency-Key")
    return UUID(chosen)


@photos.post(
    "/images",
    operation_id="upload_image",
    summary="Upload the image of a post",
    status_code=status.HTTP_201_CREATED,
    responses=problem_responses(NotFound, RateLimited),
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "The photo itself: JPEG, PNG or WebP, at most 20 MiB. Metadata on location and camera is "
            "removed.",
            "content": {
                kind: {"schema": {"type": "string", "format": "binary"}} for kind in (JPEG, "image/png", "image/webp")
            },
        }
    },
)
async def upload_image(
    request: Request, author: Author, pool: PoolDep, objects: ObjectStoreDep, image_decoder: ImageDecoderDep
) -> UploadedImageResponse:
    """It is kept for a day unless a post uses it; needs the scope `posts:write` and a person's key."""
    if request.headers.get("content-type", "").lstrip().lower().startswith("multipart/"):
        raise InvalidArgument(
            "the body is a form, and must be the photo; send the file itself: curl --data-binary @x.jpg, not -F"
        )
    photo = await decode_image(image_decoder, clean_photo, await request.body())
    return UploadedImageResponse(imagePath=await service.upload_image(pool, objects, author, photo))


@posts.get("", operation_id="list_posts", summary="List posts, the newest first")
async def list_posts(
    query: Annotated[PostQuery, Query()], viewer: Viewer, private_viewer: PrivateViewer, pool: PoolDep
) -> PostPage:
    """The released posts, or those of one person; needs the scope `posts:read`."""
    page = await service.list_posts(
        pool, viewer, author=query.author, cursor=query.next, limit=query.limit, private_viewer=private_viewer
    )
    return PostPage.model_validate(page)


@posts.get("/{post_id}", operation_id="get_post", summary="Show a post", responses=problem_responses(NotFound))
async def get_post(post_id: PostId, viewer: Viewer, private_viewer: PrivateViewer, pool: PoolDep) -> PostResponse:
    """A released one, or one's own; needs the scope `posts:read`."""
    return PostResponse.model_validate(await service.get_post(pool, viewer, post_id, private_viewer=private_viewer))


@posts.get(
    "/{post_id}/image",
    operation_id="get_post_image",
    summary="Get the image of a post",
    response_class=Response,
    responses={
        200: {"content": {JPEG: {"schema": {"type": "string", "format": "binary"}}}},
        **problem_responses(NotFound),
    },
)
async def get_post_image(post_id: PostId, viewer: Viewer, pool: PoolDep, objects: ObjectStoreDep) -> Response:
    """Of a released post, or of one's own; needs the scope `posts:read`."""
    return Response(await service.get_image(pool, objects, viewer, post_id), media_type=JPEG)


@posts.patch(
    "/{post_id}",
    operation_id="edit_caption",
    summary="Change a caption",
    responses=problem_responses(NotFound, IllegalTransition),
)
async def edit_caption(
    post_id: PostId,
    body: Annotated[CaptionRequest, Body()],
    author: Editor,
    pool: PoolDep,
) -> PostResponse:
    """Of one's own post, while it is PENDING; needs the scope `posts:write` and a person's key."""
    return PostResponse.model_validate(await service.edit_caption(pool, author, post_id, body.caption))


@slo.get(
    "", operation_id="get_slo", summary="Show the service level objectives", dependencies=[Depends(metrics_reader)]
)
async def get_slo(pool: PoolDep) -> list[ObjectiveResponse]:
    """Success rate of intents, release lag, and stuck posts; needs the scope `posts:read`."""
    objectives: list[Objective] = await measure(pool)
    return [ObjectiveResponse.model_validate(objective) for objective in objectives]
