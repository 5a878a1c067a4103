"""How a message is held, and how it may move.

`called_at` is written, fenced by the owner, just before the transport is called, and a message that waits must not have
it (`ck_outbox__called_at`). So when a lease lapses, the row itself says what is known: without `called_at` nothing left
the house and it may wait again; with it nobody can know, and the message is uncertain. The sender's own sweep decides
so in one statement, row by row, and sets aside what was started too often. The kernel's sweep knows nothing of calls:
it would be refused by that constraint, and so never sends anything twice.
"""

from duly.kernel.lease import LeaseTable
from duly.kernel.machine import Machine

__all__ = ["OUTBOX", "OUTBOX_MACHINE"]

OUTBOX = LeaseTable(
    table=("duly", "outbox"),
    state="status",
    ready="pending",
    held="sending",
    owner="lease_owner",
    until="lease_expires_at",
    due="due_at",
    lapsed="returned",
)

OUTBOX_MACHINE = Machine(
    name="outbox",
    table=("duly", "outbox"),
    state="status",
    initial=("pending",),
    edges={
        "pending": ("sending", "failed"),
        "sending": ("sent", "pending", "failed", "uncertain"),
        "uncertain": ("sent", "pending", "failed"),
        "failed": ("pending",),
    },
    held="sending",
    owner="lease_owner",
    actor="case when status = 'sending' then lease_owner when moved_from = 'sending' then settled_by end",
    detail=(
        "jsonb_strip_nulls(jsonb_build_object('starts', starts, 'called_at', called_at,"
        " 'error', case when status in ('pending', 'failed', 'uncertain') then last_error end))"
    ),
)
