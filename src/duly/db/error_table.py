"""Translate errors that the database raises into errors of duly: one table for all domains.

The functions of the migrations raise SQLSTATEs of their own, beginning with DU. A violated constraint is translated by
its name, so that the caller reads the rule. All other errors pass: they are bugs, or outages.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID

import orjson
from psycopg import errors

from duly.backoff import MAX_SECONDS
from duly.bounds import MAX_ATTEMPTS, MAX_KEY_LENGTH, MAX_PRIORITY, MIN_PRIORITY, NAME_RULE, RETAIN_RULE
from duly.canonical_json import MAX_BYTES
from duly.errors import (
    AlreadyAnswered,
    AlreadyPosted,
    Conflict,
    DulyError,
    IllegalTransition,
    InvalidArgument,
    KeyReused,
    LimitReached,
    NotFound,
    NothingToReverse,
    ReminderNotSent,
    RunClosed,
)
from duly.outcomes import invalid_result

KEY_REUSED, ALREADY_POSTED, NO_IMAGE = "DU002", "DU003", "DU004"

# From the text of an error, and its detail, to ours.
BY_SQLSTATE: Mapping[str, Callable[[str, str | None], DulyError]] = {
    "DU001": lambda text, _: IllegalTransition(text),
    KEY_REUSED: lambda text, _: KeyReused(text),
    ALREADY_POSTED: lambda text, detail: AlreadyPosted(text, post_id=UUID(detail)),
    NO_IMAGE: lambda text, _: InvalidArgument(f"imagePath: {text}"),
    "DU005": lambda text, _: NotFound(text),
    "DU006": lambda text, detail: AlreadyAnswered(text, receipt=orjson.loads(detail or "{}")),
    "DU007": lambda text, detail: RunClosed(text, reason=detail),
    "DU008": lambda text, _: NothingToReverse(text),
    "DU009": lambda text, _: ReminderNotSent(text),
    "DU010": lambda text, _: LimitReached(text),
}
MISSING_OBJECT_ERRORS = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.InvalidSchemaName,
)
DATA_EXCEPTION = "22"  # the SQLSTATE class of values that a type or function does not accept

TITLE = "must have 1 to 200 characters, without control characters or surrounding spaces"
RULES: Mapping[str, str | None] = {  # by constraint; None where the database's own message states the rule
    "ck_job__type": f"type: {NAME_RULE}",
    "ck_job__queue": f"queue: {NAME_RULE}",
    "ck_job__max_attempts": f"max_attempts: must be between 1 and {MAX_ATTEMPTS}",
    "ck_job__priority": f"priority: must be between {MIN_PRIORITY} and {MAX_PRIORITY}",
    "ck_job__idempotency_key": f"key: must have 1 to {MAX_KEY_LENGTH} characters",
    "ck_job__payload": f"payload: must be an object of at most {MAX_BYTES} bytes as the database stores it",
    "ck_job__timeout_seconds": f"timeout: must be more than 0 and at most {MAX_SECONDS / 86_400:.0f} days",
    "ck_job__backoff": (
        f"backoff: must satisfy 0 <= base <= cap, with a cap of at most {MAX_SECONDS / 86_400:.0f} days"
    ),
    "ck_job__retain_for": f"retain: {RETAIN_RULE}",
    "ck_job__years_2000_to_2200": "times must be between the years 2000 and 2200",
    "ck_job_limit__queue": f"queue: {NAME_RULE}",
    "ck_job_limit__type": f"type: {NAME_RULE}",
    "ck_jobs__first_run_at": None,
    "ck_orgs__name": f"an org's name {TITLE}",
    "ck_person__uid": "a uid must have 1 to 128 characters of A-Z a-z 0-9 . _ : @ - and start with a letter or digit",
    "ck_person__zone": "a zone must be an IANA name such as Europe/Stockholm",
    "ck_person__language": "a language must be a code such as en, sv or zh",
    "ck_person__currency": "a currency must be a code such as EUR or SEK",
    "ck_api_keys__name": f"a key's name {TITLE}",
    "ck_api_keys__expires_at": "a key's lifetime must be more than 0 days",
}
BY_CONSTRAINT: Mapping[str, Callable[[], DulyError]] = {
    "ck_job__result": lambda: invalid_result("$: it is too large as the database stores it"),
    "uq_person__telegram_id": lambda: Conflict("this Telegram id belongs to another person"),
    "uq_person__user_id": lambda: Conflict("this user is linked to another person"),
    "fk_jobs_person_user_id": lambda: Conflict("the person has schedules under the user they are linked to"),
}


class DatabaseError(NamedTuple):
    """The error that the server sent, whichever driver raised it."""

    sqlstate: str
    text: str
    detail: str | None
    hint: str | None
    constraint: str


@contextmanager
def translate_errors() -> Generator[None, None, None]:
    """Raise errors of the database, also those of other drivers or wrapped by an ORM, as ours; others pass."""
    try:
        yield
    except Exception as error:
        sent = read_database_error(error)
        translated = error_from_database(sent) if sent else None
        if translated is None:
            raise
        raise translated from error


def read_database_error(error: BaseException) -> DatabaseError | None:
    """Read the error of psycopg, psycopg2 or asyncpg, or the one that SQLAlchemy or Django wraps."""
    each: Any = error
    while each is not None:
        if diag := getattr(each, "diag", None):  # psycopg and psycopg2
            text = diag.message_primary or str(each)
            constraint = diag.constraint_name or ""
            return DatabaseError(diag.sqlstate or "", text, diag.message_detail, diag.message_hint, constraint)
        if type(each).__module__.startswith("asyncpg.") and isinstance(getattr(each, "message", None), str):
            hint, constraint = getattr(each, "hint", None), getattr(each, "constraint_name", None) or ""
            return DatabaseError(each.sqlstate or "", each.message, getattr(each, "detail", None), hint, constraint)
        each = each.__cause__ or getattr(each, "orig", None)
    return None


def error_from_database(sent: DatabaseError) -> DulyError | None:
    """Translate an error of the database; None when the table does not have it."""
    sqlstate, text, detail, hint, constraint = sent
    if constraint in BY_CONSTRAINT:
        return BY_CONSTRAINT[constraint]()
    if constraint in RULES:
        return InvalidArgument(RULES[constraint] or text)
    if sqlstate in BY_SQLSTATE:
        return BY_SQLSTATE[sqlstate](f"{text}; {hint}" if hint else text, detail)
    return InvalidArgument(text) if sqlstate.startswith(DATA_EXCEPTION) else None
