"""Seals: a few characters that only who has the secret can write, so that what comes back to us is what we gave away.

A seal is for one purpose and covers every part with its length: what was sealed for a button opens no link, and
("a", "bc") is not ("ab", "c").
"""

import hmac
from base64 import urlsafe_b64encode

__all__ = ["SEAL_CHARACTERS", "is_sealed", "seal_of"]

SEAL_CHARACTERS = 16  # 96 bits: who guesses must ask us every time


def seal_of(secret: str, purpose: str, *parts: str | int) -> str:
    """The seal of these parts, in characters that an address may have."""
    spelled = b"".join(f"{len(text)}:{text}".encode(errors="surrogatepass") for text in (purpose, *map(str, parts)))
    return urlsafe_b64encode(hmac.digest(secret.encode(), spelled, "sha256")).decode()[:SEAL_CHARACTERS]


def is_sealed(seal: str, secret: str, purpose: str, *parts: str | int) -> bool:
    """Is this their seal? Takes equally long either way."""
    return hmac.compare_digest(seal.encode(errors="surrogatepass"), seal_of(secret, purpose, *parts).encode())
