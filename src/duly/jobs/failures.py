"""What is told of a try that failed: to the hooks of an app, and on the job's row."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from psycopg import errors

from duly.jobs.context import Context
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp, clean_text

__all__ = ["OnFailure", "explained", "hook_of"]

OnFailure: TypeAlias = Callable[[Context, BaseException], Any]

log = get_log("duly.jobs")


def hook_of(hooks: Sequence[OnFailure], context: Context, failure: Failed | GiveUp) -> Callable[[], Any] | None:
    """Everything that an app wants to be called for this failure, as one call; None when it wants nothing.

    A hook gets the handler's exception, or the failure itself where there is none in this process.
    """
    if not hooks:
        return None
    error = failure.error or failure

    def call() -> Awaitable[None] | None:
        waiting = [told for hook in hooks if inspect.isawaitable(told := call_one(hook, context, error))]
        return wait_for(waiting, context) if waiting else None

    return call


def call_one(hook: OnFailure, context: Context, error: BaseException) -> object:
    """Call one hook; one that fails keeps no other from being called."""
    try:
        return hook(context, error)
    except Exception as problem:
        note_failed(context, problem)
        return None


async def wait_for(waiting: Sequence[Awaitable[Any]], context: Context) -> None:
    """Wait for hooks that are async, one after another."""
    for told in waiting:
        try:
            await told
        except Exception as problem:
            note_failed(context, problem)


def note_failed(context: Context, problem: Exception) -> None:
    """A hook that fails is worth a line, and changes nothing."""
    log.error("the on_failure hook failed", job=str(context.job_id), type=context.type, exc_info=problem)


def explained(failure: Failed | GiveUp, api_role: str) -> str:
    """The message of a failure as it is stored: where a right is missing, with the way to give it."""
    if not isinstance(failure.error, errors.InsufficientPrivilege):
        return failure.message
    advice = f"; handlers act as {api_role}: grant what they need to {api_role}"
    return clean_text(failure.message, 2048 - len(advice)) + advice
