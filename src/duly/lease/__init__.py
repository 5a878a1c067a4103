"""Claim, renew, settle, release and sweep rows: written once for every table whose rows can be leased.

A table describes itself as a `LeaseTable`, and the same guarded statements serve it. This package knows columns, not
applications.
"""
