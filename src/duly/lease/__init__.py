"""The kernel: holding a row, losing it, retrying and proving, written once for every domain.

It knows columns, never domains: a table describes itself, and the same few pure rules and guarded statements serve it.
"""
