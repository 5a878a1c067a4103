"""Kinds of values that every domain's routes take and show."""

from datetime import UTC, datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

__all__ = ["MOST_SHOWN", "Asked", "Instant", "Most", "PageQuery", "Place", "Shown"]

MOST_SHOWN = 200


def in_utc(at: datetime) -> datetime:
    """The same instant, told in UTC whatever the server's zone is."""
    return at.astimezone(UTC)


Place = Annotated[
    str, Field(max_length=512, pattern=r"^[A-Za-z0-9_-]+$", description="`next` of the page before this one.")
]
Most = Annotated[int, Field(ge=1, le=MOST_SHOWN, description="How many at most.")]
Instant: TypeAlias = Annotated[datetime, AfterValidator(in_utc)]


class Asked(BaseModel):
    """Something that was sent: nothing in it is overlooked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PageQuery(Asked):
    """Which page of a list."""

    next: Place | None = None
    limit: Most = 100


class Shown(BaseModel):
    """Something that is shown, read off a value of ours."""

    model_config = ConfigDict(from_attributes=True)
