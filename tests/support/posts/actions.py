"""What tests of posts do: upload, create, claim, release, sweep."""

import hashlib
from typing import Any
from uuid import UUID, uuid4

from duly.apps.posts.states import POST
from duly.lease.operations import Lease, claim_rows, settle_rows, sweep_rows
from tests.support.actions import Actions, Admin, Connection

__all__ = ["HOURS", "LEASE", "Admin", "Connection", "PostActions"]

LEASE = 60.0
HOURS = 3600.0
INTENT = "select is_new, answer from posts.create_intent(%s, %s, %s, %s, %s, %s)"


class PostActions(Actions):
    """Actions on posts, as administrator, worker and API."""

    schemas = ("posts",)
    table = "posts.posts"
    machine = "post"
    summary = ("caption", "status", "process_attempts", "ai_error")

    def __init__(self, admin: Admin, worker: Connection, api: Admin) -> None:
        super().__init__(admin, worker)
        self.api = api

    def upload(self, author: str) -> str:
        """Upload an image of an author, who is made; return its name."""
        self.add_user(author)
        name = f"temp/{uuid4()}.jpg"
        self.api.execute("insert into posts.uploads (name, author_id) values (%s, %s)", [name, author])
        return name

    def create_intent(
        self,
        author: str = "anna",
        caption: str = "My day",
        request: UUID | None = None,
        upload: str | None = None,
        is_stored: bool = True,
    ) -> tuple[bool, dict[str, Any]]:
        """Request a post, as the API does; return whether it is new, and the answer."""
        given = [author, request or uuid4(), digest_of(caption), caption, upload or self.upload(author), is_stored]
        row = self.api.execute(INTENT, given).fetchone()
        assert row is not None
        return row

    def create(self, *authors: str, caption: str = "My day") -> list[UUID]:
        """Create a post of each author; return their ids."""
        return [UUID(self.create_intent(author, caption)[1]["postId"]) for author in authors or ("anna",)]

    def create_due(self, *authors: str, caption: str = "My day") -> list[UUID]:
        """Create posts and advance the clock until they are due."""
        keys = self.create(*authors, caption=caption)
        self.advance_clock(6 * HOURS + 1)
        return keys

    async def claim(self, limit: int = 1, lease_seconds: float = LEASE, owner: str = "worker-1") -> list[Lease]:
        """Claim under the name that every container gives its worker."""
        return await claim_rows(self.worker, POST, owner, lease_seconds=lease_seconds, limit=limit)

    async def release(self, *leases: Lease) -> frozenset[UUID]:
        """Release posts unread."""
        return await settle_rows(
            self.worker,
            leases,
            POST.statements.settle_released,
            ai=[None] * len(leases),
            ai_error=["AI_FAILED"] * len(leases),
        )

    async def sweep(self) -> int:
        """Take back posts whose leases expired."""
        return len(await sweep_rows(self.worker, POST))


def digest_of(caption: str) -> bytes:
    """Return a digest, as of a request."""
    return hashlib.sha256(caption.encode()).digest()
