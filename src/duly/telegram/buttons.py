"""What a button carries: the key of its answer, sealed for the one chat it was sent to.

    4611686018427387904:1794837780:snooze:10080.hUjv6TLi2XoPzGkq        60 bytes, of the 64 that Telegram takes
    the key of the answer                       the seal of chat and key

Whoever forwards it, alters it or sends it from another chat has a key without its seal.
"""

from duly.accounts.signature import SEAL_CHARACTERS, is_sealed, seal_of
from duly.outbox.channel import WillNeverWork

__all__ = ["MAX_DATA_BYTES", "find_key", "sealed_key"]

MAX_DATA_BYTES = 64
PURPOSE = "telegram.button"


def sealed_key(token: str, chat: int, key: str) -> str:
    """What Telegram keeps with a button in this chat; refused when it would be more than Telegram takes."""
    data = f"{key}.{seal_of(token, PURPOSE, chat, key)}"
    if len(data.encode()) > MAX_DATA_BYTES:
        limit = MAX_DATA_BYTES - SEAL_CHARACTERS - 1
        raise WillNeverWork(f"the key of a button has at most {limit} bytes on Telegram, and this has more: {key}")
    return data


def find_key(token: str, chat: int, data: str) -> str | None:
    """The key that was sealed for this chat; None for anything else."""
    key, _, seal = data.rpartition(".")
    return key if is_sealed(seal, token, PURPOSE, chat, key) else None
