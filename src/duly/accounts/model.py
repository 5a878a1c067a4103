"""Orgs, people and keys, as values."""

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

__all__ = [
    "SCOPES",
    "ApiKey",
    "NewKey",
    "Org",
    "Quiet",
    "User",
    "Webhook",
    "checked_scopes",
    "matches",
    "new_secret",
    "new_webhook_secret",
    "prefix_of",
    "read_quiet",
]

DOMAINS = ("ledger", "ingest", "scheduler", "posts")
SCOPES = frozenset({"admin", *(f"{domain}:{right}" for domain in DOMAINS for right in ("read", "write"))})
SECRET_BYTES = 32
PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
KEY = re.compile(r"(duly_[a-z0-9]{12})_[A-Za-z0-9_-]{43}")
MAX_URL_LENGTH = 2048
WEBHOOK_SECRET = re.compile(r"whsec_([A-Za-z0-9+/=]{32,100})")
QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


@dataclass(frozen=True)
class Org:
    """A tenant."""

    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True)
class User:
    """A person."""

    id: int
    uid: str
    telegram_id: int | None
    zone: str
    language: str
    currency: str
    created_at: datetime
    updated_at: datetime
    quiet_from: time | None = None  # from then on, until quiet_until, nobody reminds them
    quiet_until: time | None = None


@dataclass(frozen=True)
class Quiet:
    """The hours of their day in which nobody reminds a person; they may lie around midnight."""

    begins: time
    ends: time

    def __post_init__(self) -> None:
        if self.begins == self.ends:
            raise InvalidArgument(
                f"quiet hours begin and end at {self.begins:%H:%M}: give two times, as in 22:00-07:00"
            )


@dataclass(frozen=True)
class Webhook:
    """Where messages to a person go, and the secret that signs them."""

    url: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        checked_url(self.url)
        found = WEBHOOK_SECRET.fullmatch(self.secret)
        if not found or not is_base64(found[1]):
            raise InvalidArgument(
                "a webhook's secret is whsec_ and 32 to 100 characters of base64; without one it is made"
            )


@dataclass(frozen=True)
class ApiKey:
    """A key as it may be shown: everything but the secret."""

    id: UUID
    name: str
    prefix: str
    scopes: list[str]
    org_id: UUID | None
    user_id: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    uid: str | None  # of the person it belongs to


@dataclass(frozen=True)
class NewKey:
    """A key just made, with the secret that will not be shown again."""

    key: ApiKey
    secret: str


def new_secret() -> str:
    """A fresh key: a prefix that may be shown, and 256 random bits that may not."""
    prefix = "".join(secrets.choice(PREFIX_ALPHABET) for _ in range(12))
    return f"duly_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"


def prefix_of(secret: str) -> str | None:
    """The part of a key it is found by; None when this is no key of ours."""
    found = KEY.fullmatch(secret)
    return found[1] if found else None


def sha256_of(secret: str) -> bytes:
    """What the database keeps. A key has 256 random bits, so a slow hash would protect nothing more."""
    return hashlib.sha256(secret.encode()).digest()


def matches(secret: str, secret_sha256: bytes) -> bool:
    """Is this the key that was hashed? Takes equally long either way."""
    return hmac.compare_digest(sha256_of(secret), secret_sha256)


def checked_scopes(scopes: Iterable[str]) -> list[str]:
    """The scopes in order, or a refusal that lists what there is."""
    wanted = sorted(set(scopes))
    if unknown := [scope for scope in wanted if scope not in SCOPES]:
        raise InvalidArgument(f"no such scope: {', '.join(unknown)}; there are {', '.join(sorted(SCOPES))}")
    if not wanted:
        raise InvalidArgument(f"a key needs at least one scope of: {', '.join(sorted(SCOPES))}")
    return wanted


def read_quiet(text: str) -> Quiet:
    """Quiet hours as people write them: 22:00-07:00."""
    if not (found := QUIET.fullmatch(text)):
        raise InvalidArgument(f"quiet hours are two times such as 22:00-07:00, or none; not {text[:40]!r}")
    hours = [int(part) for part in found.groups()]
    return Quiet(time(hours[0], hours[1]), time(hours[2], hours[3]))


def new_webhook_secret() -> str:
    """A fresh secret as standardwebhooks.com writes it."""
    return f"whsec_{b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}"


def checked_url(url: str) -> None:
    """Refuse what cannot be the address of a webhook."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    written = url.isascii() and url.isprintable() and " " not in url and url.startswith(("https://", "http://"))
    if not is_address or not written or len(url) > MAX_URL_LENGTH:
        raise InvalidArgument(
            f"a webhook's address begins with https:// or http:// and has at most {MAX_URL_LENGTH} characters, as in "
            f"https://example.com/hooks; not {url[:80]!a}"
        )


def is_base64(text: str) -> bool:
    """Can this be decoded?"""
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False
