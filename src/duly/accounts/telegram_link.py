"""A link that binds a Telegram id to a person: whose it is, until when, and a seal, in characters that Telegram takes.

    https://t.me/<bot>?start=AAAAAAAAAAcAav…        /start AAAAAAAAAAcAav…

It works once, because it binds only who has no Telegram id yet; and it says itself how long it lives.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta

from duly.accounts.signature import SEAL_CHARACTERS, is_sealed, seal_of
from duly.errors import InvalidArgument

__all__ = ["LINK_MINUTES", "new_link", "read_link"]

LINK_MINUTES = 60
PURPOSE = "telegram.link"
BODY = struct.Struct(">qI4x")  # whose, until when, and room
BODY_CHARACTERS = 22


def new_link(secret: str, user_id: int, now: datetime, minutes: float = LINK_MINUTES) -> str:
    """A link for this person, from now on for so many minutes."""
    until = int((now + timedelta(minutes=minutes)).timestamp())
    body = urlsafe_b64encode(BODY.pack(user_id, until)).decode().rstrip("=")
    return body + seal_of(secret, PURPOSE, body)


def read_link(secret: str, link: str, now: datetime) -> int:
    """Whose link this is, while it lives."""
    body, seal = link[:-SEAL_CHARACTERS], link[-SEAL_CHARACTERS:]
    if len(body) != BODY_CHARACTERS or not link.isascii() or not is_sealed(seal, secret, PURPOSE, body):
        raise InvalidArgument("this link is not one of ours; ask for a new one")
    user_id, until = BODY.unpack(urlsafe_b64decode(body + "=="))
    if now.timestamp() > until:
        raise InvalidArgument("this link has expired; ask for a new one")
    return user_id
