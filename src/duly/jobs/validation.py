"""What a developer declares and asks for, checked when it is written: each refusal names the value and the fix.

The database has the same rules for every caller; here they are found before a worker or a transaction has begun.
"""

import inspect
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from typing import Any

from duly.backoff import Backoff
from duly.errors import InvalidArgument
from duly.jobs.context import Context
from duly.jobs.duration import Duration, seconds_of
from duly.jobs.model import DAY_SECONDS, MAX_RETAIN_SECONDS, Options

__all__ = [
    "check_first_parameter",
    "check_name",
    "check_number",
    "check_options",
    "declared_backoff",
    "declared_options",
    "declared_seconds",
]

MAX_NAME = 100
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/-]*")
NAME_RULE = f"must have 1 to {MAX_NAME} characters of A-Z a-z 0-9 _ . : / - and begin with a letter or digit"
MAX_CONCURRENCY = 1_000_000
CONTEXT_NAMES = ("ctx", "context", "")  # without leading underscores
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


# Options --------------------------------------------------------------------------------------------------------------


def check_options(subject: str, given: Collection[str], known: Collection[str], elsewhere: dict[str, str]) -> None:
    """Refuse an option that does not exist, with the name that was probably meant."""
    for name in given:
        if name in known:
            continue
        if name in elsewhere:
            raise InvalidArgument(f"unknown option {name} of {subject}; {elsewhere[name]}")
        nearest = get_close_matches(name.lower(), sorted(known), n=1)
        fix = f"did you mean {nearest[0]}?" if nearest else f"it takes {', '.join(sorted(known))}"
        raise InvalidArgument(f"unknown option {name} of {subject}; {fix}")


# Declarations ---------------------------------------------------------------------------------------------------------


def declared_options(
    job_type: str,
    *,
    queue: str,
    max_attempts: int,
    backoff: Backoff | str,
    priority: int,
    timeout: Duration | None,
    retain: Duration,
) -> Options:
    """The options of a declared type, or a refusal that names the type, the option and its value."""
    check_name(f"job type {job_type!r}", job_type)
    of = f"of the job type '{job_type}'"
    check_name(f"queue={queue!r} {of}", queue)
    check_number(f"max_attempts={max_attempts!r} {of}", max_attempts, 1, 1000)
    check_number(f"priority={priority!r} {of}", priority, -100, 100)
    seconds = None if timeout is None else declared_seconds(f"timeout={timeout!r} {of}", timeout)
    if seconds == 0:
        raise InvalidArgument(f"timeout={timeout!r} {of}: must be more than 0; leave it out for no limit")
    kept = declared_seconds(f"retain={retain!r} {of}", retain, float("inf"))
    if not DAY_SECONDS <= kept <= MAX_RETAIN_SECONDS:
        raise InvalidArgument(f"retain={retain!r} {of}: must be between 1 day and 3660 days")
    return Options(priority, max_attempts, declared_backoff(backoff), seconds, kept)


def declared_backoff(backoff: Backoff | str) -> Backoff:
    """A policy's name stands for the policy with its usual base and cap."""
    return backoff if isinstance(backoff, Backoff) else Backoff(backoff)


def declared_seconds(subject: str, duration: Duration, *max_length: float) -> float:
    """A duration in seconds."""
    try:
        return seconds_of(duration, *max_length)
    except (InvalidArgument, TypeError, ValueError) as error:
        raise InvalidArgument(f"{subject}: {error}") from None


def check_name(subject: str, name: object) -> None:
    """Refuse what cannot be the name of a type or a queue."""
    if not isinstance(name, str):
        raise InvalidArgument(f"{subject}: must be a string")
    if len(name) > MAX_NAME or not NAME.fullmatch(name):
        raise InvalidArgument(f"{subject}: {NAME_RULE}")


def check_number(subject: str, number: object, least: int, limit: int) -> None:
    """Refuse what is not a whole number within bounds."""
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= limit:
        raise InvalidArgument(f"{subject}: must be a whole number between {least} and {limit}")


def check_first_parameter(job_type: str, function: Callable[..., Any]) -> None:
    """Refuse a function whose first parameter is not the context, by its annotation or by its name."""
    first = next(iter(signature_of(function).parameters.values()), None)
    if first is None:
        raise InvalidArgument(
            f"the job type '{job_type}': {name_of(function)} takes no parameters, and a worker calls it with the job's "
            "context; let its first parameter be ctx: duly.Context"
        )
    if first.kind not in POSITIONAL or not is_context(first):
        raise InvalidArgument(
            f"the job type '{job_type}': the first parameter of {name_of(function)} is {first}, and a worker calls it "
            "with the job's context; let its first parameter be ctx: duly.Context"
        )


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature with its annotations as objects where they can be had: a type checker's imports may be missing."""
    try:
        return inspect.signature(function, eval_str=True)
    except Exception:
        return inspect.signature(function)


def is_context(first: inspect.Parameter) -> bool:
    """Does this parameter take the context: does its annotation say so, or its name?"""
    annotation = first.annotation
    if isinstance(annotation, str) and annotation.strip("'\" ").rpartition(".")[2] == Context.__name__:
        return True
    if isinstance(annotation, type) and issubclass(annotation, Context):
        return True
    return first.name.lstrip("_") in CONTEXT_NAMES


def name_of(function: Callable[..., Any]) -> str:
    """A function as a message names it."""
    return getattr(function, "__qualname__", repr(function))
