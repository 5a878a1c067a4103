"""Recomputes the hash of every stored day, which SQL cannot: it is over the canonical form of the payload.

The hash is the SHA-256 of the payload in the form of RFC 8785 (docs/verify.md).
"""

from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from duly.canonical_json import digest_hex
from duly.db.queries import load_queries

BATCH_ROWS = 500
SQL = load_queries(__file__, "hashes.sql")


def find_wrong_hashes(connection: psycopg.Connection[Any], schema: str, limit: int) -> Iterator[str]:
    """Yield versions whose hash differs from that of their payload, up to the limit; reads in batches."""
    with connection.cursor("wrong_hashes", row_factory=tuple_row) as cursor:
        cursor.itersize = BATCH_ROWS
        cursor.execute(SQL.using(ingest=schema).find_wrong_hashes)
        for user_id, day, version, payload, payload_hash in cursor:
            if (computed := digest_hex(payload)) != payload_hash:
                yield f"version {version} of {day} of {user_id} has the hash {payload_hash}, and its payload {computed}"
                limit -= 1
            if limit == 0:
                return
