"""Parse a document of the first version, or of the transition to the second, into the row to insert."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid5

from duly.apps.posts.model import DELAY, UID, PostStatus, validate_caption
from duly.canonical_json import checked_json, digest_hex
from duly.errors import InvalidArgument

NAMESPACE = UUID("6f0c1f3e-6d0b-5b0e-9a52-0d2f7a3b8c11")  # for documents whose id is not a UUID
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LegacyPost:
    """A document of the first version, or of the transition to the second, as the row to insert."""

    id: UUID
    author_id: str
    status: PostStatus
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


def parse_legacy(raw: object) -> LegacyPost:
    """Parse a document; raises InvalidArgument, naming the field.

    A field of the second version takes precedence over its name in the first. Without a status the document counts as
    released; one that was not released elsewhere becomes pending.
    """
    document = checked_json(raw)
    status = legacy_status(document)
    created_at = find_time(document, "createdAt", "timestamp")
    assert created_at is not None
    release_time = find_time(document, "releaseTime", is_required=False)
    if status is not PostStatus.RELEASED:
        release_time = release_time or created_at + DELAY
    released = status is PostStatus.RELEASED
    return LegacyPost(
        id=legacy_id(document),
        author_id=legacy_author(document),
        status=status,
        created_at=created_at,
        release_time=release_time,
        released_at=find_time(document, "releasedAt", "processedAt", is_required=False) if released else None,
        daily_key=find_text(document, "dailyKey") or None,
        request_id=parse_uuid(find_text(document, "requestId")),
        caption=validate_caption(find_text(document, "caption", "content") or ""),
        image_url=find_text(document, "imageUrl", "url") or None,
        ai=legacy_ai(document) if released else None,
        ai_error=legacy_error(document) if released else None,
        document=document,
    )


def legacy_id(document: Mapping[str, Any]) -> UUID:
    """Return the id of a document, or a stable UUID derived from it when it is missing or not a UUID."""
    name = find_text(document, "postId", "id", "_id")
    return parse_uuid(name) or uuid5(NAMESPACE, name or digest_hex(dict(document)))


def legacy_author(document: Mapping[str, Any]) -> str:
    """Return the author of a document."""
    author = find_text(document, "authorId", "userId")
    if author is None or not UID.fullmatch(author):
        raise InvalidArgument(
            "authorId or userId: required: up to 128 letters, digits and . _ : @ -, the first a letter or digit"
        )
    return author


def legacy_status(document: Mapping[str, Any]) -> PostStatus:
    """Return the status of a document: released if it has none, pending if it was in progress elsewhere."""
    status = find_text(document, "status")
    if status is None:
        return PostStatus.RELEASED
    if status not in set(PostStatus):
        raise InvalidArgument(f"status: must be one of {', '.join(PostStatus)}, or missing")
    return PostStatus.RELEASED if status == PostStatus.RELEASED else PostStatus.PENDING


def legacy_ai(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the `ai` field if it is a map."""
    ai = document.get("ai")
    return cast("Mapping[str, Any]", ai) if isinstance(ai, dict) else None


def legacy_error(document: Mapping[str, Any]) -> str | None:
    """Return the `aiError` field if it is a code."""
    error = find_text(document, "aiError")
    return error if error and re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", error) else None


def find_text(document: Mapping[str, Any], *names: str) -> str | None:
    """Return the first of these fields that is present; raises InvalidArgument when it is not text."""
    for name in names:
        value = document.get(name)
        if value is None:
            continue
        if not isinstance(value, str):
            raise InvalidArgument(f"{name}: must be text")
        return value
    return None


def find_time(document: Mapping[str, Any], *names: str, is_required: bool = True) -> datetime | None:
    """Return the first of these fields that is present, parsed as a time."""
    for name in names:
        value = document.get(name)
        if value is not None:
            return parse_time(name, value)
    if is_required:
        raise InvalidArgument(f"{' or '.join(names)}: required")
    return None


def parse_time(name: str, value: object) -> datetime:
    """Parse a time in any format of the known exports; raises InvalidArgument."""
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
    """Convert a Firestore timestamp; raises ValueError."""
    if isinstance(seconds, bool) or isinstance(nanoseconds, bool) or not 0 <= nanoseconds < 1_000_000_000:
        raise ValueError
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=nanoseconds // 1000)


def parse_uuid(value: str | None) -> UUID | None:
    """Return the UUID that a text contains, or None."""
    try:
        return UUID(value) if value else None
    except ValueError:
        return None
