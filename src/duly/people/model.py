"""Orgs, people and keys, as values."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from duly.errors import InvalidArgument

__all__ = ["SCOPES", "ApiKey", "NewKey", "Org", "User", "checked_scopes", "matches", "new_secret", "prefix_of"]

DOMAINS = ("ledger", "ingest", "scheduler", "posts")
SCOPES = frozenset({"admin", *(f"{domain}:{right}" for domain in DOMAINS for right in ("read", "write"))})
SECRET_BYTES = 32
PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
KEY = re.compile(r"(duly_[a-z0-9]{12})_[A-Za-z0-9_-]{43}")


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
