"""Validate declarations of job types and options: each error names the value and the fix.

The database enforces the same rules for every caller; here they are checked before a worker or transaction begins.
"""

import inspect
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from duly.backoff import Backoff
from duly.bounds import (
    MAX_ATTEMPTS,
    MAX_NAME_LENGTH,
    MAX_PRIORITY,
    MAX_RETAIN_DAYS,
    MIN_PRIORITY,
    MIN_RETAIN_DAYS,
    NAME_RULE,
    RETAIN_RULE,
)
from duly.errors import InvalidArgument
from duly.jobs.context import Context
from duly.jobs.duration import Duration, to_seconds
from duly.jobs.model import JobOptions

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")
DAY = 86_400  # seconds
CONTEXT_NAMES = ("ctx", "context", "")  # without leading underscores
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


# Options --------------------------------------------------------------------------------------------------------------


def check_options(subject: str, given: Collection[str], known: Collection[str], hints: dict[str, str]) -> None:
    """Raise InvalidArgument for an unknown option, with its hint or the closest known name."""
    for name in given:
        if name in known:
            continue
        if name in hints:
            raise InvalidArgument(f"unknown option {name} of {subject}; {hints[name]}")
        nearest = get_close_matches(name.lower(), sorted(known), n=1)
        fix = f"did you mean {nearest[0]}?" if nearest else f"options are {', '.join(sorted(known))}"
        raise InvalidArgument(f"unknown option {name} of {subject}; {fix}")


# Declarations ---------------------------------------------------------------------------------------------------------


def parse_options(
    type_name: str,
    *,
    queue: str,
    max_attempts: int,
    backoff: Backoff | str,
    priority: int,
    timeout: Duration | None,
    retain: Duration,
) -> JobOptions:
    """Validate the options of a declaration; InvalidArgument names the type, the option and its value."""
    check_name(f"job type {type_name!r}", type_name)
    of_type = f"of the job type '{type_name}'"
    check_name(f"queue={queue!r} {of_type}", queue)
    check_integer(f"max_attempts={max_attempts!r} {of_type}", max_attempts, 1, MAX_ATTEMPTS)
    check_integer(f"priority={priority!r} {of_type}", priority, MIN_PRIORITY, MAX_PRIORITY)
    seconds = None if timeout is None else parse_seconds(f"timeout={timeout!r} {of_type}", timeout)
    if seconds == 0:
        raise InvalidArgument(f"timeout={timeout!r} {of_type}: must be more than 0; leave it out for no limit")
    retain_seconds = parse_seconds(f"retain={retain!r} {of_type}", retain, float("inf"))
    if not MIN_RETAIN_DAYS * DAY <= retain_seconds <= MAX_RETAIN_DAYS * DAY:
        raise InvalidArgument(f"retain={retain!r} {of_type}: {RETAIN_RULE}")
    return JobOptions(priority, max_attempts, parse_backoff(backoff), seconds, retain_seconds)


def parse_backoff(backoff: Backoff | str) -> Backoff:
    """Convert the name of a policy to the policy with its default base and cap."""
    return backoff if isinstance(backoff, Backoff) else Backoff(backoff)


def parse_seconds(subject: str, duration: Duration, *max_seconds: float) -> float:
    """Convert a duration to seconds; InvalidArgument names the subject."""
    try:
        return to_seconds(duration, *max_seconds)
    except (InvalidArgument, TypeError, ValueError) as error:
        raise InvalidArgument(f"{subject}: {error}") from None


def check_name(subject: str, name: object) -> None:
    """Raise InvalidArgument unless this is a valid name of a type or queue."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{subject}: must be a string")
    if len(name) > MAX_NAME_LENGTH or not NAME.fullmatch(name):
        raise InvalidArgument(f"{subject}: {NAME_RULE}")


def check_integer(subject: str, number: object, minimum: int, maximum: int) -> None:
    """Raise InvalidArgument unless this is an integer within bounds."""
    if not isinstance(number, int) or isinstance(number, bool) or not minimum <= number <= maximum:
        raise InvalidArgument(f"{subject}: must be an integer between {minimum} and {maximum}")


def check_first_parameter(type_name: str, function: Callable[..., Any]) -> None:
    """Raise InvalidArgument unless the first parameter is the context, by its annotation or its name."""
    first = next(iter(resolve_signature(function).parameters.values()), None)
    if first is None:
        raise InvalidArgument(
            f"the job type '{type_name}': {function_name(function)} takes no parameters, but a worker calls it with "
            "the job's context; make its first parameter ctx: duly.Context"
        )
    if first.kind not in POSITIONAL or not is_context(first):
        raise InvalidArgument(
            f"the job type '{type_name}': the first parameter of {function_name(function)} is {first}, but a worker "
            "calls it with the job's context; make its first parameter ctx: duly.Context"
        )


def resolve_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, with annotations evaluated where possible: imports under TYPE_CHECKING may be missing."""
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:
        return inspect.signature(function)


def is_context(first: inspect.Parameter) -> bool:
    """Return whether this parameter takes the context, by its annotation or its name."""
    annotation = first.annotation
    if isinstance(annotation, str) and annotation.strip("'\" ").rpartition(".")[2] == Context.__name__:
        return True
    if isinstance(annotation, type) and issubclass(annotation, Context):
        return True
    return first.name.lstrip("_") in CONTEXT_NAMES


def function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return getattr(function, "__qualname__", repr(function))
