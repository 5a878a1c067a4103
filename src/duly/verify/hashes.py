"""Recomputing what SQL cannot: the hash of every stored day, which is over a canonical form of its payload.

Any other reader can do the same: the hash is the SHA-256 of the payload as RFC 8785 writes it (docs/verify.md).
"""

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from duly.canonical_json import digest_hex
from duly.db.queries import load_queries

__all__ = ["VERSIONS_HAVE_THEIR_HASH", "find_wrong_hashes"]

VERSIONS_HAVE_THEIR_HASH = "versions_have_their_hash"
ROWS_AT_ONCE = 500
SQL = load_queries(__file__, "hashes.sql")


def find_wrong_hashes(connection: psycopg.Connection[Any], schema: str, limit: int) -> Iterator[str]:
    """Versions whose hash is not that of their payload, so many at most; reads a few hundred rows at a time."""
    with connection.cursor("wrong_hashes", row_factory=tuple_row) as cursor:
        cursor.itersize = ROWS_AT_ONCE
        cursor.execute(SQL.using(ingest=schema).find_wrong_hashes)
        for user_id, day, version, payload, payload_hash in cursor:
            if (computed := digest_hex(payload)) != payload_hash:
                yield f"version {version} of {day} of {user_id} has the hash {payload_hash}, and its payload {computed}"
                limit -= 1
            if limit == 0:
                return
