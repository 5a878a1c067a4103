"""A minimal worker: `python -m tools.bench.posts.bare_worker <address>`. Claim, settle, write notices, again.

The same statements, tables, triggers, transactions and batches as ours, and the same length of reading. No runtime,
heartbeat, sweep, handlers, retries or stop: one connection, one loop, and every post is given the same reading.
"""

import sys
import time
from typing import Any

import orjson
import psycopg
from psycopg import Connection
from psycopg.conninfo import make_conninfo

from duly.apps.posts import repository
from duly.apps.posts.messages import texts_by_language
from duly.apps.posts.states import POST
from duly.lease.owner import new_owner
from duly.settings import load_settings
from tools.bench.posts.content import sample_reading
from tools.bench.posts.worker import BATCH

LEASE_SECONDS = 60.0
REST_SECONDS = 0.05
CLAIM = POST.statements.claim
SETTLE = POST.statements.settle_released


def main() -> None:
    """Work until killed."""
    (dsn,) = sys.argv[1:]
    reading = sample_reading()
    with psycopg.connect(make_conninfo(dsn, user=load_settings().worker_role)) as connection:
        while True:
            if not release_some(connection, reading):
                time.sleep(REST_SECONDS)


def release_some(connection: Connection[Any], reading: str) -> bool:
    """Release a batch, if any is due."""
    owner = new_owner("bare")
    with connection.transaction():
        given = {"owner": owner, "lease_seconds": LEASE_SECONDS, "limit": BATCH, "keys": None}
        keys = [row[0] for row in connection.execute(CLAIM, given).fetchall()]
    if not keys:
        return False
    settled = {
        "keys": keys,
        "owners": [owner] * len(keys),
        "ai": [reading] * len(keys),
        "ai_error": [None] * len(keys),
    }
    with connection.transaction():
        released = [row[0] for row in connection.execute(SETTLE, settled).fetchall()]
        connection.execute(
            repository.SQL.write_notices,
            {"post_ids": released, "texts": orjson.dumps(texts_by_language("released")).decode()},
        )
    return True


if __name__ == "__main__":
    main()
