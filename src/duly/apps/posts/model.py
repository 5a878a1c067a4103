"""Values of posts: the validated request and the post."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from duly.canonical_json import digest
from duly.errors import InvalidArgument
from duly.tracebacks import UNSTORABLE

MAX_CAPTION_LENGTH = 2200
MAX_ATTEMPTS = 5  # then the post is released unread
UPLOAD = re.compile(r"temp/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jpg")
UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
DELAY = timedelta(hours=6)


class PostStatus(StrEnum):
    """The status of a post."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RELEASED = "RELEASED"


@dataclass(frozen=True, slots=True)
class Intent:
    """A validated request for a post; raises InvalidArgument for an invalid image path or caption."""

    author: str
    image_path: str
    caption: str
    request_id: UUID

    def __post_init__(self) -> None:
        if not UPLOAD.fullmatch(self.image_path):
            raise InvalidArgument("imagePath: must be the name that the upload returned, temp/<uuid>.jpg")
        validate_caption(self.caption)

    @property
    def digest(self) -> bytes:
        """The hash of the request, which the request id must always be used with."""
        return digest({"imagePath": self.image_path, "caption": self.caption})


@dataclass(frozen=True, slots=True)
class Post:
    """A post; request and lease are None except for its author and for administrators."""

    id: UUID
    author_id: str
    status: PostStatus
    release_time: datetime | None
    created_at: datetime
    updated_at: datetime
    daily_key: str | None
    version: int
    process_attempts: int
    ai: Mapping[str, Any] | None
    ai_error: str | None
    caption: str
    image_url: str | None
    released_at: datetime | None
    request_id: UUID | None
    lease_owner: str | None  # the worker id, without the claim token
    lease_expires_at: datetime | None


def validate_caption(caption: str) -> str:
    """Return a storable caption; raises InvalidArgument."""
    if len(caption) > MAX_CAPTION_LENGTH:
        raise InvalidArgument(f"caption: has {len(caption)} characters; at most {MAX_CAPTION_LENGTH}")
    if UNSTORABLE.search(caption):
        raise InvalidArgument("caption: contains a NUL or a lone surrogate, which cannot be stored; remove it")
    return caption


def permanent_name(upload: str) -> str:
    """Return the permanent name of an uploaded image, as the SQL function `posts.permanent_name` does."""
    name = upload.removeprefix("temp/")
    return f"posts/{name[:2]}/{name}"
