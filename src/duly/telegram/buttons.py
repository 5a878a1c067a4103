"""The data of a button: its key (`scheduler/button_key.py`), signed for the chat it was sent to.

    4611686018427387904:1794837780:snooze:10080.hUjv6TLi2XoPzGkq        60 bytes of at most 64
    the key of the answer                       signature of chat and key

Data that was altered, or is sent from another chat, has no valid signature.
"""

from duly.accounts.signature import SIGNATURE_LENGTH, is_signature_valid, signature_for
from duly.outbox.channel import Undeliverable

MAX_DATA_BYTES = 64
PURPOSE = "telegram.button"


def sign_key(token: str, chat: int, key: str) -> str:
    """Return the data of a button in a chat; raises Undeliverable when it exceeds the limit of Telegram."""
    data = f"{key}.{signature_for(token, PURPOSE, chat, key)}"
    if len(data.encode()) > MAX_DATA_BYTES:
        limit = MAX_DATA_BYTES - SIGNATURE_LENGTH - 1
        raise Undeliverable(f"the key of a Telegram button may have at most {limit} bytes: {key}")
    return data


def find_key(token: str, chat: int, data: str) -> str | None:
    """Return the key in the data of a button if it was signed for this chat, else None."""
    key, _, signature = data.rpartition(".")
    return key if is_signature_valid(signature, token, PURPOSE, chat, key) else None
