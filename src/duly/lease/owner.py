"""Names of lease owners, and ids of new rows.

The owner of a lease is `<WORKER_ID>/<claim token>`. The worker id is for people and may be the same in every container;
the token is fresh for every claim, so that no later or same-named owner can be mistaken for this one.
"""

import re
import secrets
import sys
from uuid import UUID

from duly.configuration.engine import MAX_WORKER_ID_LENGTH, is_worker_id
from duly.errors import InvalidArgument

if sys.version_info >= (3, 14):
    from uuid import uuid7
else:
    from uuid_utils.compat import uuid7

TOKEN_BYTES = 16  # 128 random bits: 22 URL-safe characters, none of which is "/"
OWNER = re.compile(r"(.+)/[A-Za-z0-9_-]{22}")


def new_owner(worker_id: str) -> str:
    """Return a unique, unguessable owner for one claim; raises InvalidArgument for an invalid worker id."""
    if not is_worker_id(worker_id):
        raise InvalidArgument(
            f"WORKER_ID={worker_id[:MAX_WORKER_ID_LENGTH]!a}: "
            f"must be 1 to {MAX_WORKER_ID_LENGTH} printable characters, and not only blanks"
        )
    return f"{worker_id}/{secrets.token_urlsafe(TOKEN_BYTES)}"


def worker_from_owner(owner: str) -> str:
    """Return the worker id of an owner; an owner without a token, written by another program, is returned as it is."""
    ours = OWNER.fullmatch(owner)
    return ours[1] if ours else owner


def new_id() -> UUID:
    """Return a UUIDv7: later ids of one process sort after earlier ones."""
    return uuid7()
