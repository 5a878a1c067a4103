"""What tests of posts do all the time: ask for posts, hold them, let time pass, look."""

import hashlib
from typing import Any
from uuid import UUID, uuid4

import psycopg
from psycopg import AsyncConnection, sql

from duly.kernel.lease import Lease, claim, settle_many, sweep
from duly.posts import POST
from duly.testing import move_clock
from duly.verify import check

__all__ = ["HOURS", "LEASE", "Admin", "Connection", "Hands"]

Admin = psycopg.Connection[Any]
Connection = AsyncConnection[Any]
LEASE = 60.0
HOURS = 3600.0
INTENT = "select is_new, answer from posts.create_intent(%s, %s, %s, %s, %s, %s)"


class Hands:
    """A test's own hand, the API's, and a worker's."""

    def __init__(self, admin: Admin, api: psycopg.Connection[Any], worker: Connection) -> None:
        self.admin = admin
        self.api = api
        self.worker = worker

    def know(self, *uids: str) -> None:
        """Make people."""
        for uid in uids:
            self.admin.execute('insert into "user".users (uid) values (%s) on conflict do nothing', [uid])

    def upload(self, author: str) -> str:
        """An image that its author brought."""
        self.know(author)
        name = f"temp/{uuid4()}.jpg"
        self.api.execute("insert into posts.uploads (name, author_id) values (%s, %s)", [name, author])
        return name

    def ask(
        self,
        author: str = "anna",
        caption: str = "My day",
        request: UUID | None = None,
        upload: str | None = None,
        is_kept: bool = True,
    ) -> tuple[bool, dict[str, Any]]:
        """Ask for a post, as the API does: whether it is new, and the answer."""
        given = [author, request or uuid4(), digest_of(caption), caption, upload or self.upload(author), is_kept]
        row = self.api.execute(INTENT, given).fetchone()
        assert row is not None
        return row

    def put(self, *authors: str, caption: str = "My day") -> list[UUID]:
        """A post of each author's, today."""
        return [UUID(self.ask(author, caption)[1]["postId"]) for author in authors or ("anna",)]

    def put_due(self, *authors: str, caption: str = "My day") -> list[UUID]:
        """The same, six hours later."""
        keys = self.put(*authors, caption=caption)
        self.pass_time(6 * HOURS + 1)
        return keys

    async def hold(self, most: int = 1, seconds: float = LEASE, name: str = "worker-1") -> list[Lease]:
        """Claim as the worker that every container calls itself."""
        return await claim(self.worker, POST, name, lease_seconds=seconds, most=most)

    async def release(self, *leases: Lease) -> frozenset[UUID]:
        """Let posts appear, unread."""
        return await settle_many(self.worker, leases, "RELEASED", {"ai_error": ("text", ["AI_FAILED"] * len(leases))})

    async def sweep(self) -> int:
        """Take from the dead."""
        return len(await sweep(self.worker, POST))

    def look(self, *columns: str) -> list[Any]:
        """These columns of every post, in the order they were made; of one column, its values."""
        asked = sql.SQL("select {} from posts.posts order by created_at, id")
        rows = self.admin.execute(asked.format(sql.SQL(", ").join(map(sql.Identifier, columns)))).fetchall()
        return [row[0] for row in rows] if len(columns) == 1 else rows

    def path(self, key: UUID) -> list[str]:
        """Where a post has been."""
        asked = "select next_status from duly.transition where machine = 'post' and key = %s order by seq"
        return [status for (status,) in self.admin.execute(asked, [str(key)])]

    def count(self, table: str) -> int:
        """How many rows a table has."""
        row = self.admin.execute(
            sql.SQL("select count(*) from {}").format(sql.Identifier(*table.split(".")))
        ).fetchone()
        assert row is not None
        return row[0]

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass."""
        move_clock(self.admin, seconds)

    def verify(self) -> None:
        """Nothing breaks a law."""
        assert check(self.admin, ("duly", "posts")) == []


def digest_of(caption: str) -> bytes:
    """A digest, as of a request."""
    return hashlib.sha256(caption.encode()).digest()
