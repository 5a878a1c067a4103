"""Report a failed attempt: call the hooks of an app, and build the message that is stored."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from psycopg import errors

from duly.jobs.context import Context
from duly.logging import get_log
from duly.outcomes import Failed, GiveUp, clean_text

OnFailure: TypeAlias = Callable[[Context, BaseException], Any]

log = get_log("duly.jobs")


def build_hook_call(hooks: Sequence[OnFailure], context: Context, failure: Failed | GiveUp) -> Callable[[], Any] | None:
    """Combine the hooks of an app for this failure into one call; None when there are none.

    They are called for failures of a handler: not for a crash of its worker, nor for too many snoozes.

    A hook gets the handler's exception, or the failure itself where the exception was raised in another process.
    """
    if not hooks:
        return None
    error = failure.error or failure

    def call() -> Awaitable[None] | None:
        awaitables = [returned for hook in hooks if inspect.isawaitable(returned := call_hook(hook, context, error))]
        return await_hooks(awaitables, context) if awaitables else None

    return call


def call_hook(hook: OnFailure, context: Context, error: BaseException) -> object:
    """Call one hook; if it raises, log that, so that the others are still called."""
    try:
        return hook(context, error)
    except Exception as hook_error:
        log_hook_error(context, hook_error)
        return None


async def await_hooks(awaitables: Sequence[Awaitable[Any]], context: Context) -> None:
    """Await async hooks, one after another."""
    for awaitable in awaitables:
        try:
            await awaitable
        except Exception as hook_error:
            log_hook_error(context, hook_error)


def log_hook_error(context: Context, hook_error: Exception) -> None:
    """Log a hook that raised; it changes nothing else."""
    log.error("job.failure_hook_failed", job=str(context.job_id), type=context.type, exc_info=hook_error)


def build_stored_message(failure: Failed | GiveUp, api_role: str) -> str:
    """Build the message of a failure that is stored; for a missing privilege, with the grant that fixes it."""
    if not isinstance(failure.error, errors.InsufficientPrivilege):
        return failure.message
    advice = f"; handlers act as {api_role}: grant the privilege to {api_role}"
    return clean_text(failure.message, 2048 - len(advice)) + advice
