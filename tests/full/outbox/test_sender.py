"""The sender: what is due is sent once, in order for each recipient, tried again, given up, or uncertain."""

from dataclasses import replace
from typing import Any

import psycopg

from duly.outbox import repository
from duly.outbox.states import OUTBOX
from tests.fast.outbox.test_sender import all_sent
from tests.support.actions import working
from tests.support.outbox.actions import TUNING, Admin, MessageActions, ScriptedChannel, send_work

# Order ----------------------------------------------------------------------------------------------------------------


async def test_messages_of_one_recipient_are_sent_in_order(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    words = [f"{nth:02}" for nth in range(40)]
    for word in words:
        messages.create(word, to="anna")
        messages.create(f"bo {word}", to="bo")
    async with working(dsn, send_work(channel, tuning=replace(TUNING, slots=7))):
        await messages.until(lambda: all_sent(messages))
    assert [word for word in channel.words() if not word.startswith("bo")] == words
    assert [word for word in channel.words() if word.startswith("bo")] == [f"bo {word}" for word in words]


async def test_two_senders_keep_the_order_of_each_recipient(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    for nth in range(60):
        messages.create(f"{nth:02}", to=f"user{nth % 3}")
    async with working(dsn, send_work(channel)), working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    for line in range(3):
        mine = [word for word in channel.words() if int(word) % 3 == line]
        assert mine == sorted(mine)
    assert len(channel.tries) == 60


def test_message_claim_sweep_and_resend_use_their_indexes(admin: Admin) -> None:
    admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload) select 'mail', 'user' || n, 'alert', '{}'"
        " from generate_series(1, 20000) as n"
    )
    admin.execute("update duly.outbox set status = 'failed', last_error = 'withdrawn' where right(id::text, 1) > '1'")
    admin.execute("analyze duly.outbox")
    claim: dict[str, Any] = {"channels": ["mail"], "owner": "x", "lease_seconds": 1.0}
    for statement, index, given in (
        (OUTBOX.statements.claim, "idx_outbox__channel_due_at_id", claim),
        (OUTBOX.statements.claim, "idx_outbox__channel_recipient_seq", claim),
        (OUTBOX.statements.sweep, "idx_outbox__id", {"keys": None, "max_starts": 3}),
        (
            repository.SQL.using(**OUTBOX.names).resend_uncertain,
            "idx_outbox__seq_uncertain",
            {"channels": ["mail"], "max_starts": 3},
        ),
    ):
        with psycopg.ClientCursor(admin) as cursor:
            cursor.execute(b"explain " + statement.as_string(None).encode(), {"limit": 10, "scan_limit": 500, **given})
            assert index in str(cursor.fetchall())
