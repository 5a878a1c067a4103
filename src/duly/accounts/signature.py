"""Short signatures for texts that come back to us: the buttons and the deep links of Telegram.

A signature is for one purpose and covers every part with its length: a signature made for a button is not valid for a
link, and ("a", "bc") is not ("ab", "c").
"""

import hmac
from base64 import urlsafe_b64encode

SIGNATURE_LENGTH = 16  # 96 bits are enough: every guess costs a request


def signature_for(secret: str, purpose: str, *parts: str | int) -> str:
    """Return the signature of these parts, in URL-safe characters."""
    encoded = b"".join(f"{len(text)}:{text}".encode(errors="surrogatepass") for text in (purpose, *map(str, parts)))
    return urlsafe_b64encode(hmac.digest(secret.encode(), encoded, "sha256")).decode()[:SIGNATURE_LENGTH]


def is_signature_valid(signature: str, secret: str, purpose: str, *parts: str | int) -> bool:
    """Verify a signature of these parts, in constant time."""
    return hmac.compare_digest(
        signature.encode(errors="surrogatepass"), signature_for(secret, purpose, *parts).encode()
    )
