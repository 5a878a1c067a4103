"""Posts as values: what is asked for, what is answered, what is shown; and how documents of the first version read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, cast
from uuid import UUID, uuid5

from duly.canonical_json import checked_json, digest, digest_hex
from duly.errors import InvalidArgument
from duly.outcomes import UNSTORABLE

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_CAPTION_LENGTH",
    "Intent",
    "LegacyPost",
    "Post",
    "Status",
    "checked_caption",
    "kept_name",
    "read_legacy",
]

MAX_CAPTION_LENGTH = 2200
MAX_ATTEMPTS = 5  # then it is released as it is
UPLOAD = re.compile(r"temp/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.jpg")
UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,127}")
NAMESPACE = UUID("6f0c1f3e-6d0b-5b0e-9a52-0d2f7a3b8c11")  # of documents whose id is no UUID
DELAY = timedelta(hours=6)
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class Status(StrEnum):
    """Where a post is."""

    PENDING = "PENDING"
    PROCESSING = "PROCESSING"
    RELEASED = "RELEASED"


@dataclass(frozen=True, slots=True)
class Intent:
    """A request for a post, checked: whose, of which image, with which words, under which request id."""

    author: str
    image_path: str
    caption: str
    request_id: UUID

    def __post_init__(self) -> None:
        if not UPLOAD.fullmatch(self.image_path):
            raise InvalidArgument("imagePath: must be what the upload of the image answered, temp/<uuid>.jpg")
        checked_caption(self.caption)

    @property
    def digest(self) -> bytes:
        """What the request id stands for."""
        return digest({"imagePath": self.image_path, "caption": self.caption})


@dataclass(frozen=True, slots=True)
class Post:
    """A post as it may be shown; its request and its lease only to its author and to administrators."""

    id: UUID
    author_id: str
    status: Status
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
    lease_owner: str | None  # the worker's name: the token of the claim is never shown
    lease_expires_at: datetime | None


def checked_caption(caption: str) -> str:
    """A caption as it can be kept, or a refusal."""
    if len(caption) > MAX_CAPTION_LENGTH:
        raise InvalidArgument(f"caption: has {len(caption)} characters; at most {MAX_CAPTION_LENGTH}")
    if UNSTORABLE.search(caption):
        raise InvalidArgument("caption: holds a NUL or half a character, which cannot be stored; leave it out")
    return caption


def kept_name(upload: str) -> str:
    """Where the image of a post is kept for good; `posts.kept_name` says the same."""
    name = upload.removeprefix("temp/")
    return f"posts/{name[:2]}/{name}"


# The first version -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegacyPost:
    """A document of the first version, or of a time when both were written, as the row it becomes."""

    id: UUID
    author_id: str
    status: Status
    created_at: datetime
    release_time: datetime | None
    released_at: datetime | None
    daily_key: str | None
    request_id: UUID | None
    caption: str
    image_url: str | None
    ai: Mapping[str, Any] | None
    ai_error: str | None
    document: Mapping[str, Any]


def read_legacy(document: object) -> LegacyPost:
    """The row that a document becomes; InvalidArgument, naming the field, when it becomes none.

    A field of the second version wins over its name in the first. Without a status it was released long ago; one that
    another system was about to release waits here for that.
    """
    found = checked_json(document)
    status = legacy_status(found)
    created_at = instant(found, "createdAt", "timestamp")
    assert created_at is not None
    release_time = instant(found, "releaseTime", needed=False)
    if status is not Status.RELEASED:
        release_time = release_time or created_at + DELAY
    released = status is Status.RELEASED
    return LegacyPost(
        id=legacy_id(found),
        author_id=legacy_author(found),
        status=status,
        created_at=created_at,
        release_time=release_time,
        released_at=instant(found, "releasedAt", "processedAt", needed=False) if released else None,
        daily_key=text(found, "dailyKey") or None,
        request_id=as_uuid(text(found, "requestId")),
        caption=checked_caption(text(found, "caption", "content") or ""),
        image_url=text(found, "imageUrl", "url") or None,
        ai=legacy_ai(found) if released else None,
        ai_error=legacy_error(found) if released else None,
        document=found,
    )


def legacy_id(found: Mapping[str, Any]) -> UUID:
    """Its own id; one that is no UUID, or is missing, stands for a UUID that is the same every time."""
    name = text(found, "postId", "id", "_id")
    return as_uuid(name) or uuid5(NAMESPACE, name or digest_hex(dict(found)))


def legacy_author(found: Mapping[str, Any]) -> str:
    """Whose it is."""
    author = text(found, "authorId", "userId")
    if author is None or not UID.fullmatch(author):
        raise InvalidArgument(
            "authorId or userId: must be there: up to 128 letters, digits and . _ : @ -, the first a letter or digit"
        )
    return author


def legacy_status(found: Mapping[str, Any]) -> Status:
    """Without a status it is released; one that was being prepared elsewhere is prepared here, from the start."""
    status = text(found, "status")
    if status is None:
        return Status.RELEASED
    if status not in set(Status):
        raise InvalidArgument(f"status: must be one of {', '.join(Status)}, or missing")
    return Status.RELEASED if status == Status.RELEASED else Status.PENDING


def legacy_ai(found: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """How it was read, where that is a map."""
    ai = found.get("ai")
    return cast("Mapping[str, Any]", ai) if isinstance(ai, dict) else None


def legacy_error(found: Mapping[str, Any]) -> str | None:
    """Why it was not, where that is a code."""
    error = text(found, "aiError")
    return error if error and re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", error) else None


def text(found: Mapping[str, Any], *names: str) -> str | None:
    """The first of these fields that is there; InvalidArgument when it is no text."""
    for name in names:
        value = found.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidArgument(f"{name}: must be text")
        return value
    return None


def instant(found: Mapping[str, Any], *names: str, needed: bool = True) -> datetime | None:
    """The first of these fields that is there, as a time."""
    for name in names:
        value = found.get(name)
        if value is not None:
            return as_instant(name, value)
    if needed:
        raise InvalidArgument(f"{' or '.join(names)}: must be there")
    return None


def as_instant(name: str, value: object) -> datetime:
    """A time, however an export writes it."""
    try:
        match value:
            case str():
                at = datetime.fromisoformat(value)
            case bool():
                raise ValueError
            case int() | float():
                at = datetime.fromtimestamp(value / 1000, UTC)
            case {"_seconds": int(seconds), "_nanoseconds": int(nanoseconds)}:
                at = from_parts(seconds, nanoseconds)
            case {"seconds": int(seconds), "nanoseconds": int(nanoseconds)}:
                at = from_parts(seconds, nanoseconds)
            case _:
                raise ValueError
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        raise InvalidArgument(
            f"{name}: must be a time: ISO 8601, milliseconds since 1970, {{seconds, nanoseconds}} or "
            "{_seconds, _nanoseconds}"
        ) from None
    if not EARLIEST <= at < LATEST:
        raise InvalidArgument(f"{name}: must lie in the years 2000 to 2199")
    return at


def from_parts(seconds: int, nanoseconds: int) -> datetime:
    """A time that is written as Firestore does, or ValueError."""
    if isinstance(seconds, bool) or isinstance(nanoseconds, bool) or not 0 <= nanoseconds < 1_000_000_000:
        raise ValueError
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=nanoseconds // 1000)


def as_uuid(value: str | None) -> UUID | None:
    """A text as the UUID it spells, if it does."""
    try:
        return UUID(value) if value else None
    except ValueError:
        return None
