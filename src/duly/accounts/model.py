"""Orgs, people and API keys, as values."""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, time
from urllib.parse import urlsplit
from uuid import UUID

from duly.errors import InvalidArgument

DOMAINS = ("ledger", "ingest", "scheduler", "posts")
SCOPES = frozenset({"admin", *(f"{domain}:{right}" for domain in DOMAINS for right in ("read", "write"))})
SECRET_BYTES = 32
PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
KEY = re.compile(r"(duly_[a-z0-9]{12})_[A-Za-z0-9_-]{43}")
MAX_URL_LENGTH = 2048
NO_USER_ID = -(2**63)
WEBHOOK_SECRET = re.compile(r"whsec_([A-Za-z0-9+/=]{32,100})")
QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


@dataclass(frozen=True)
class Org:
    """A tenant."""

    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True)
class Person:
    """A person."""

    id: int
    uid: str
    telegram_id: int | None
    user_id: int | None  # in "user".users, for the scheduler
    zone: str
    language: str
    currency: str
    created_at: datetime
    updated_at: datetime
    quiet_from: time | None = None  # no reminders from this time of day until quiet_until
    quiet_until: time | None = None

    @property
    def schedule_owner_id(self) -> int:
        """The user_id of their schedules; for a person without one an id that no schedule has."""
        return NO_USER_ID if self.user_id is None else self.user_id


@dataclass(frozen=True)
class QuietHours:
    """The hours of a person's day in which no reminders are sent; they may span midnight."""

    start: time
    end: time

    def __post_init__(self) -> None:
        if self.start == self.end:
            raise InvalidArgument(
                f"quiet hours start and end at {self.start:%H:%M}: give two different times, for example 22:00-07:00"
            )


@dataclass(frozen=True)
class WebhookAddress:
    """Where messages to a person are posted, and the secret that signs them."""

    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        check_webhook_url(self.url)
        found = WEBHOOK_SECRET.fullmatch(self.secret)
        if not found or not is_base64(found[1]):
            raise InvalidArgument(
                "webhook secret: must be whsec_ and 32 to 100 characters of base64; leave it out to generate one"
            )


@dataclass(frozen=True)
class ApiKey:
    """An API key without its secret."""

    id: UUID
    name: str
    prefix: str
    scopes: list[str]
    org_id: UUID | None
    person_id: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    uid: str | None  # of the person it belongs to


@dataclass(frozen=True)
class NewKey:
    """A key just created, with the secret, which is not shown again."""

    key: ApiKey
    secret: str


def new_secret() -> str:
    """Generate a key: a prefix that may be shown, and 256 random bits that may not."""
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(12))
    return f"duly_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"


def parse_key_prefix(secret: str) -> str | None:
    """Return the part of a key that it is found by; None when the text is not a key of duly."""
    found = KEY.fullmatch(secret)
    return found[1] if found else None


def hash_secret(secret: str) -> bytes:
    """Return the hash that the database stores. A key has 256 random bits, so a slow hash adds no protection."""
    return hashlib.sha256(secret.encode()).digest()


def is_matching_secret(secret: str, secret_sha256: bytes) -> bool:
    """Compare a secret with a stored hash, in constant time."""
    return hmac.compare_digest(hash_secret(secret), secret_sha256)


def validate_scopes(scopes: Iterable[str]) -> list[str]:
    """Return the scopes, sorted and without duplicates; InvalidArgument for an unknown one, or for none."""
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidArgument(f"unknown scope: {', '.join(unknown)}; valid scopes: {', '.join(sorted(SCOPES))}")
    if not wanted:
        raise InvalidArgument(f"a key needs at least one scope; valid scopes: {', '.join(sorted(SCOPES))}")
    return wanted


def parse_quiet_hours(text: str) -> QuietHours:
    """Parse quiet hours, for example 22:00-07:00."""
    if not (found := QUIET.fullmatch(text)):
        raise InvalidArgument(f"quiet hours: must be two times such as 22:00-07:00, or none; not {text[:40]!r}")
    hours = [int(part) for part in found.groups()]
    return QuietHours(time(hours[0], hours[1]), time(hours[2], hours[3]))


def new_webhook_secret() -> str:
    """Generate a secret in the format of standardwebhooks.com."""
    return f"whsec_{b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def check_webhook_url(url: str) -> None:
    """Raise InvalidArgument when the URL cannot be the address of a webhook."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    is_clean = url.isascii() and url.isprintable() and " " not in url and url.startswith(("https://", "http://"))
    if not is_address or not is_clean or len(url) > MAX_URL_LENGTH:
        raise InvalidArgument(
            f"webhook URL: must start with https:// or http:// and have at most {MAX_URL_LENGTH} characters, "
            f"for example https://example.com/hooks; not {url[:80]!a}"
        )


def is_base64(text: str) -> bool:
    """Return whether the text is valid, non-empty base64."""
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
