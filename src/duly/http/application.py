"""What an application brings to the API."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter

from duly.db.pool import Pool

State = Mapping[str, Any]


def no_state(_: Pool) -> AbstractAsyncContextManager[State]:
    """Open nothing."""
    return nullcontext(dict[str, Any]())


@dataclass(frozen=True)
class HttpPart:
    """The routes of an application, and what they find in `request.state` while the API runs, beside the engine's."""

    routers: Sequence[APIRouter]
    open_state: Callable[[Pool], AbstractAsyncContextManager[State]] = no_state
