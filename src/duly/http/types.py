"""Kinds of values that every domain's routes take and show."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

__all__ = ["MAX_SHOWN", "Asked", "Instant", "Limit", "PageQuery", "Place", "Shown"]

MAX_SHOWN = 200
MAX_UNKNOWN = 100  # in one object; more are a heap, which is not looked at


def in_utc(at: datetime) -> datetime:
    """The same instant, told in UTC whatever the server's zone is."""
    return at.astimezone(UTC)


Place = Annotated[
    str, Field(max_length=512, pattern=r"^[A-Za-z0-9_-]+$", description="`next` of the page before this one.")
]
Limit = Annotated[int, Field(ge=1, le=MAX_SHOWN, description="How many at most.")]
Instant: TypeAlias = Annotated[datetime, AfterValidator(in_utc)]


def count_fields(given: object) -> int:
    """How many fields an object has; what is no object has none."""
    return len(cast("dict[str, object]", given)) if isinstance(given, dict) else 0


class Asked(BaseModel):
    """Something that was sent: nothing in it is overlooked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def has_hardly_more_than_we_know(cls, given: object) -> object:
        """A few unknown fields are named one by one; a heap of them is one mistake, and costs as much."""
        known, sent = len(cls.model_fields), count_fields(given)
        if sent > known + MAX_UNKNOWN:
            raise ValueError(f"has {sent} fields, and there are {known}; send no others")
        return given


class PageQuery(Asked):
    """Which page of a list."""

    next: Place | None = None
    limit: Limit = 100


class Shown(BaseModel):
    """Something that is shown, read off a value of ours."""

    model_config = ConfigDict(from_attributes=True)
