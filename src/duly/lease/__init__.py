"""Claim, renew, settle, release and sweep rows of every table whose rows can be leased.

Each table has its statements in a `lease.sql` beside its package, readable as they run; the same conformance tests hold
all of them to the same rules. This package runs them, and knows no application.
"""
