"""Posts: a post waits for its release time, is read by an analyzer, and is released exactly once.

    PENDING --now >= releaseTime--> PROCESSING --read or fallback--> RELEASED
       ^                                 |
       +--------- lease expired ---------+      (repair)

One post per author and UTC day: the `daily_locks` row is inserted first, in the same transaction, so the loser of a
race is refused before it has written anything a client could see. A repeated request gets the first response again.

No post gets stuck: every claim counts as a start, and after five of them the post is released without being read; a
failure of the analyzer is stored as a code in `aiError` and replaced by a reading by rules; and a lease ends ten
minutes after the claim, however often it is renewed.

Documents of the first version are stored in the same table, unchanged and released.
"""
