"""Links that link a Telegram id to a person: person id, expiry and signature, in characters that Telegram accepts.

    https://t.me/<bot>?start=AAAAAAAAAAcAav…        /start AAAAAAAAAAcAav…

A link works once, because it only links a person who has no Telegram id yet.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import datetime, timedelta

from duly.accounts.signature import SIGNATURE_LENGTH, is_signature_valid, signature_for
from duly.errors import InvalidArgument

LINK_TTL_MINUTES = 60.0
PURPOSE = "telegram.link"
BODY = struct.Struct(">qI4x")  # person id, expiry, padding
BODY_LENGTH = 22


def create_telegram_link(secret: str, person_id: int, now: datetime, minutes: float = LINK_TTL_MINUTES) -> str:
    """Return a link for this person that is valid for a number of minutes."""
    expires_at = int((now + timedelta(minutes=minutes)).timestamp())
    body = urlsafe_b64encode(BODY.pack(person_id, expires_at)).decode().rstrip("=")
    return body + signature_for(secret, PURPOSE, body)


def parse_telegram_link(secret: str, link: str, now: datetime) -> int:
    """Return the id of the person of a link; InvalidArgument when it is forged or expired."""
    body, signature = link[:-SIGNATURE_LENGTH], link[-SIGNATURE_LENGTH:]
    if len(body) != BODY_LENGTH or not link.isascii() or not is_signature_valid(signature, secret, PURPOSE, body):
        raise InvalidArgument("invalid link; request a new one")
    person_id, expires_at = BODY.unpack(urlsafe_b64decode(body + "=="))
    if now.timestamp() > expires_at:
        raise InvalidArgument("the link has expired; request a new one")
    return person_id
