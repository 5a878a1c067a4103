"""Base models and value types that the routes of every application share."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias, cast

from fastapi import Header
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from duly.bounds import MAX_KEY_LENGTH
from duly.errors import InvalidArgument

MAX_PAGE_SIZE = 200
MAX_UNKNOWN_FIELDS = 100  # of one object; with more, they are reported as one error


def to_utc(at: datetime) -> datetime:
    """Convert an instant to UTC, whatever the zone of the server is."""
    return at.astimezone(UTC)


CursorText = Annotated[
    str, Field(max_length=512, pattern=r"^[A-Za-z0-9_-]+$", description="`next` of the previous page.")
]
NextCursor = Annotated[
    str | None, Field(description="Cursor of the next page, passed as `?next=`; null on the last page.")
]
Limit = Annotated[int, Field(ge=1, le=MAX_PAGE_SIZE, description="Maximum number of items.")]
Instant: TypeAlias = Annotated[datetime, AfterValidator(to_utc)]

IdempotencyKey: TypeAlias = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_KEY_LENGTH,
        description="The same request under the same key has one effect; another request under it is an error.",
    ),
]


def choose_idempotency_key(header: str | None, field: str | None, field_name: str) -> str | None:
    """Return the idempotency key of the header or of a field of the body; InvalidArgument when they differ."""
    if header is not None and field is not None and header != field:
        raise InvalidArgument(f"the header Idempotency-Key and the field {field_name} differ; send one of them")
    return field if header is None else header


def count_fields(value: object) -> int:
    """Count the fields of an object; any other value has none."""
    return len(cast("dict[str, object]", value)) if isinstance(value, dict) else 0


class RequestModel(BaseModel):
    """Base of request models; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def limit_unknown_fields(cls, value: object) -> object:
        """Report very many unknown fields as one error, so that a response stays small; a few are named one by one."""
        known, sent = len(cls.model_fields), count_fields(value)
        if sent > known + MAX_UNKNOWN_FIELDS:
            raise ValueError(f"has {sent} fields, of which at most {known} are known; send no others")
        return value


class PageQuery(RequestModel):
    """Selects a page of a list."""

    next: CursorText | None = None
    limit: Limit = 100


class ResponseModel(BaseModel):
    """Base of response models, filled from the attributes of a domain object."""

    model_config = ConfigDict(from_attributes=True)
