"""The lease table of posts.

The guard enforces the rules of the contract: a post is not claimed before its release time, not repaired while its
lease is valid, its caption is editable until it is claimed, and a released post is immutable. A lease ends ten minutes
after the claim however often it is renewed, so that no post is stuck for fifteen.
"""

from duly.db.queries import load_queries
from duly.lease.operations import LeaseTable

SQL = load_queries(__file__, "lease.sql")
POST = LeaseTable(("posts", "posts"), SQL, starts="process_attempts")
