"""Links that let whoever holds them do one thing, for a while: signed, so that nobody can make one up.

    https://example.com/c/<what it does, whose it is, until when>.<signature>

What a link says is not secret, only unalterable. The keys lie in the database, where the worker that writes a link and
the API that opens it both find them; the newest signs, all of them are honoured, so that keys can change under way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from duly.db.queries import load_queries
from duly.db.rows import Connection, change, get_rows, get_value

__all__ = ["MAX_TOKEN_LENGTH", "Link", "add_link_key", "list_link_keys", "read_link", "rotate_link_keys", "sign_link"]

SQL = load_queries(__file__, "signed_links.sql")
PURPOSE = "duly.answer"  # a signature made for something else is none here
MAX_TOKEN_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class Link:
    """One answer of one person to one run, until an instant."""

    uid: str
    run: int
    action: str
    key: str
    until: int  # seconds since 1970
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def is_over(self, now: datetime) -> bool:
        """Has its time passed?"""
        return now.timestamp() >= self.until


def sign_link(keys: Sequence[bytes], link: Link) -> str:
    """The token that stands for this, signed by the newest key; the same link is the same token every time."""
    from itsdangerous import URLSafeSerializer

    said = [link.uid, link.run, link.action, link.key, link.until, dict(link.given)]
    return str(URLSafeSerializer(list(keys), salt=PURPOSE).dumps(said))


def read_link(keys: Sequence[bytes], token: str) -> Link | None:
    """What a token stands for; None for anything that we did not sign."""
    from itsdangerous import BadData, URLSafeSerializer

    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        return None
    try:
        uid, run, action, key, until, given = URLSafeSerializer(list(keys), salt=PURPOSE).loads(token)
    except BadData:
        return None
    return Link(uid, run, action, key, until, given)


async def list_link_keys(connection: Connection) -> list[bytes]:
    """Every key that is honoured, the one that signs last."""
    return [bytes(row["secret"]) for row in await get_rows(connection, SQL.list_link_keys)]


async def add_link_key(connection: Connection) -> int:
    """Have a new key sign from now on; its number."""
    return await get_value(connection, SQL.add_link_key)


async def drop_link_keys(connection: Connection, newest: int) -> int:
    """Honour no key that is older than this; how many there were."""
    return await change(connection, SQL.drop_link_keys, newest=newest)


async def rotate_link_keys(connection: Connection, *, at_once: bool) -> int:
    """A new key signs; how many older ones are forgotten, which are none unless it is to be at once."""
    newest = await add_link_key(connection)
    return await drop_link_keys(connection, newest) if at_once else 0
