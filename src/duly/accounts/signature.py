"""Short signatures for texts that come back to us: the buttons and the deep links of Telegram.

A signature is for one purpose and covers every part as JSON: a signature made for a button is not valid for a link, and
("a", "bc") is not ("ab", "c").
"""

import hashlib
import hmac
import json

SIGNATURE_LENGTH = 16  # 96 bits are enough: every guess costs a request


def signature_for(secret: str, purpose: str, *parts: str | int) -> str:
    """Return the signature of these parts, in URL-safe characters."""
    from itsdangerous import Signer

    signer = Signer(secret, salt=purpose, digest_method=hashlib.sha256)
    return signer.get_signature(json.dumps(parts)).decode()[:SIGNATURE_LENGTH]


def is_signature_valid(signature: str, secret: str, purpose: str, *parts: str | int) -> bool:
    """Verify a signature of these parts, in constant time."""
    return hmac.compare_digest(signature.encode(errors="replace"), signature_for(secret, purpose, *parts).encode())
