"""Posts: a post waits, is prepared, and appears exactly once.

    PENDING --now >= releaseTime--> PROCESSING --read or fallback--> RELEASED
       ^                                 |
       +--------- lease lapsed ----------+      (repair)

One post per author and UTC day: the `daily_locks` row is inserted first, in the same transaction, so the loser of a
race is refused before it has written anything a client could see. A request that comes again gets the answer it got.

Nothing is stuck: every claim counts as a start, and after five of them the post appears without being read; whatever an
analyzer does, its failure is a code in `aiError` and a reading by rules in its place; and a lease ends ten minutes
after the post was taken, however often it is renewed.

Documents of the first version live among the others, as they were, released.
"""

from duly.apps.posts.model import Intent, LegacyPost, Post, Status, read_legacy
from duly.apps.posts.states import POST, POST_MACHINE

__all__ = ["POST", "POST_MACHINE", "Intent", "LegacyPost", "Post", "Status", "read_legacy"]
