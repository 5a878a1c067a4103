"""The sender: what is due is sent once, in order for each recipient, tried again, given up, or uncertain."""

import asyncio
import re
import time
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect, open_pool
from duly.delivery import service, store
from duly.delivery.channel import Message, NotSent, Unknown, WhenUncertain, WillNeverWork
from duly.delivery.machine import OUTBOX, notification
from duly.errors import IllegalMove, InvalidArgument, NotFound
from duly.kernel.lease import Lease
from duly.launcher import ROOT
from duly.settings import Settings
from duly.testing import move_clock
from duly.wiring import channels_of, works_of
from tests.delivery.hands import PACE, Admin, Told, know, look, put, send_work, until, working

LEASE = 30.0


def all_sent(admin: Admin) -> bool:
    """Has every message gone out?"""
    return set(look(admin)) == {"sent"}


async def hold(dsn: str, *channels: str, most: int = 100) -> list[Lease]:
    """Hold messages, as a sender does that ends at once."""
    async with await connect(dsn) as connection:
        return await store.claim_messages(connection, OUTBOX, "dead", channels, lease_seconds=LEASE, most=most)


async def call(dsn: str, leases: list[Lease]) -> None:
    """Note that their transport is called, as a sender does that ends right after."""
    async with await connect(dsn) as connection:
        assert await store.note_called(connection, OUTBOX, leases) == {lease.claim for lease in leases}


async def test_a_new_message_wakes_the_sender(admin: Admin, dsn: str) -> None:
    channel = Told()
    asleep = replace(PACE, poll_seconds=3600)
    know(admin)
    (wired,) = works_of(Settings(), ["outbox"])
    async with working(dsn, send_work(channel, pace=asleep, wakes=wired.wakes)) as worker:
        put(admin, "first")  # seen by the look that every worker begins with, if not by being woken
        await until(admin, lambda: look(admin) == ["sent"])
        (lanes,) = worker.control.lanes
        await until(admin, lambda: time.monotonic() > lanes.awake_until)  # from here on it does not look by itself
        put(admin, "second")
        await until(admin, lambda: look(admin) == ["sent", "sent"])
    assert channel.words() == ["first", "second"]


async def test_what_is_due_is_sent_and_says_so(admin: Admin, dsn: str) -> None:
    channel = Told()
    know(admin)
    (key,) = put(admin, "hello")
    put(admin, "later", due="duly.clock() + interval '1 hour'")
    put(admin, "elsewhere", channel="pigeon")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin)[0] == "sent")
    assert channel.words() == ["hello"]
    (message,) = channel.sent
    assert (message.id, message.recipient, message.kind) == (key, "anna", "test.word")
    assert message.person is not None
    assert look(admin, "status, starts, receipt, called_at is not null, sent_at is not null") == [
        ("sent", 1, "receipt 1", True, True),
        ("pending", 0, None, False, False),
        ("pending", 0, None, False, False),
    ]
    path = admin.execute(
        "select next_status, actor is not null from duly.transition where key = %s order by seq", [key]
    ).fetchall()
    assert path == [("pending", False), ("sending", True), ("sent", True)]


async def test_a_message_that_was_not_sent_is_tried_again_under_the_same_id(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda _: NotSent("busy") if len(channel.tries) < 3 else None
    (key,) = put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    assert len(channel.tries) == 3
    assert {message.id for message in channel.sent} == {key}
    assert look(admin, "starts, last_error") == [(3, None)]


async def test_what_is_tried_too_often_fails_with_its_last_error(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda _: NotSent("out of order")
    put(admin, "hello")
    async with working(dsn, send_work(channel, most_starts=3)):
        await until(admin, lambda: look(admin) == ["failed"])
    assert look(admin, "starts, last_error") == [(3, "out of order")]


async def test_any_other_error_is_tried_again_too(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda _: ZeroDivisionError("oops") if len(channel.tries) < 2 else None
    put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    assert len(channel.tries) == 2


async def test_what_will_never_work_fails_at_once(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda _: WillNeverWork("no such person")
    put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin) == ["failed"])
    assert look(admin, "starts, last_error") == [(1, "no such person")]


async def test_the_other_side_says_how_long_to_wait(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda _: NotSent("slow down", retry_after=120.0) if len(channel.tries) < 2 else None
    put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin, "last_error") == ["slow down"])
        (wait,) = look(admin, "extract(epoch from due_at - duly.clock())::float")
        assert 110 < wait <= 120
        move_clock(admin, 121)
        await until(admin, lambda: all_sent(admin))


# Order ----------------------------------------------------------------------------------------------------------------


async def test_one_recipients_messages_go_out_in_their_order(admin: Admin, dsn: str) -> None:
    channel = Told()
    words = [f"{nth:02}" for nth in range(40)]
    for word in words:
        put(admin, word, to="anna")
        put(admin, f"bo {word}", to="bo")
    async with working(dsn, send_work(channel, pace=replace(PACE, slots=7))):
        await until(admin, lambda: all_sent(admin))
    assert [word for word in channel.words() if not word.startswith("bo")] == words
    assert [word for word in channel.words() if word.startswith("bo")] == [f"bo {word}" for word in words]


async def test_whoever_must_be_tried_again_is_not_overtaken_and_holds_up_no_other(admin: Admin, dsn: str) -> None:
    channel = Told()
    channel.act = lambda message: (
        NotSent("busy") if message.payload["word"] == "a1" and channel.tries.count("a1") < 4 else None
    )
    put(admin, "a1", "a2", "a3", to="anna")
    put(admin, "b1", "b2", to="bo")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    words = channel.words()
    assert [word for word in words if word[0] == "a"] == ["a1", "a2", "a3"]
    assert words.index("b2") < words.index("a1")
    assert look(admin, "starts")[1:3] == [1, 1]  # waiting is nobody's fault


async def test_a_line_that_stands_still_is_not_looked_at_again_and_again(admin: Admin, dsn: str) -> None:
    put(admin, *(f"a{nth}" for nth in range(700)), to="anna")
    put(admin, "b", to="bo")
    admin.execute(
        "update duly.outbox set status = 'sending', starts = 1, lease_owner = 'x/1',"
        " lease_expires_at = duly.clock() + interval '1 min' where payload ->> 'word' = 'a0'"
    )
    admin.execute(
        "update duly.outbox set status = 'pending', lease_owner = null, lease_expires_at = null,"
        " due_at = duly.clock() + interval '10 min' where payload ->> 'word' = 'a0'"
    )
    held = await hold(dsn, "test", most=10)
    assert [lease.row["payload"]["word"] for lease in held] == ["b"]
    soon = admin.execute(
        "select count(*) from duly.outbox where recipient = 'anna' and due_at < duly.clock() + interval '9 min'"
    ).fetchone()
    assert soon == (0,)


async def test_what_is_due_later_on_purpose_holds_up_nobody(admin: Admin, dsn: str) -> None:
    channel = Told()
    put(admin, "after quiet hours", due="duly.clock() + interval '1 hour'")
    put(admin, "now")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin)[1] == "sent")
    assert look(admin) == ["pending", "sent"]


async def test_two_senders_keep_the_order_too(admin: Admin, dsn: str) -> None:
    channel = Told()
    for nth in range(60):
        put(admin, f"{nth:02}", to=f"user{nth % 3}")
    async with working(dsn, send_work(channel)), working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    for line in range(3):
        mine = [word for word in channel.words() if int(word) % 3 == line]
        assert mine == sorted(mine)
    assert len(channel.tries) == 60


# Uncertain ------------------------------------------------------------------------------------------------------------


async def test_what_never_left_the_house_waits_again(admin: Admin, dsn: str) -> None:
    channel = Told()
    put(admin, "hello")
    assert len(await hold(dsn, "test")) == 1
    move_clock(admin, LEASE + 1)
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    assert channel.words() == ["hello"]
    assert look(admin, "starts") == [2]


async def test_nobody_is_named_for_what_a_dead_sender_left(admin: Admin, dsn: str) -> None:
    """Least of all whoever tried before."""
    channel = Told()
    channel.act = lambda _: NotSent("not now")
    put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin, "settled_by") != [None])
    channel.act = lambda _: None
    move_clock(admin, LEASE)
    assert len(await hold(dsn, "test")) == 1
    move_clock(admin, LEASE + 1)
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    swept = "select actor from duly.transition where detail_json ->> 'error' like 'its sender ended%'"
    assert admin.execute(swept).fetchall() == [(None,)]


async def test_of_what_was_handed_to_a_transport_nobody_can_know(admin: Admin, dsn: str) -> None:
    channel = Told(when_uncertain=WhenUncertain.ASK)
    put(admin, "hello", "behind it")
    await call(dsn, await hold(dsn, "test", most=1))
    move_clock(admin, LEASE + 1)
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin) == ["uncertain", "sent"])  # and it keeps nobody waiting
    assert channel.words() == ["behind it"]
    assert look(admin, "last_error")[0] == "its sender ended after it had called the transport"


async def test_where_the_other_side_can_tell_it_is_sent_again_under_the_same_id(admin: Admin, dsn: str) -> None:
    channel = Told(when_uncertain=WhenUncertain.RESEND)
    (key,) = put(admin, "hello")
    await call(dsn, await hold(dsn, "test"))
    move_clock(admin, LEASE + 1)
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    assert [message.id for message in channel.sent] == [key]
    path = admin.execute("select next_status from duly.transition where key = %s order by seq", [key]).fetchall()
    assert [status for (status,) in path] == ["pending", "sending", "uncertain", "pending", "sending", "sent"]


async def test_a_channel_may_say_that_it_does_not_know(admin: Admin, dsn: str) -> None:
    channel = Told(when_uncertain=WhenUncertain.ASK)
    channel.act = lambda _: Unknown("the line went dead")
    put(admin, "hello")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin) == ["uncertain"])
    assert look(admin, "last_error") == ["the line went dead"]


async def test_a_send_that_takes_too_long_is_uncertain_where_the_other_side_cannot_tell(admin: Admin, dsn: str) -> None:
    channel = Told(when_uncertain=WhenUncertain.ASK)
    channel.act = lambda _: asyncio.Event().wait()
    put(admin, "hello")
    async with working(dsn, send_work(channel, seconds=0.2)):
        await until(admin, lambda: look(admin) == ["uncertain"])


async def test_a_sender_that_lost_its_lease_calls_no_transport(admin: Admin, dsn: str) -> None:
    put(admin, "hello")
    (lease,) = await hold(dsn, "test")
    move_clock(admin, LEASE + 1)
    async with await connect(dsn) as connection:
        assert await store.note_called(connection, OUTBOX, [lease]) == frozenset()
    assert look(admin, "status, called_at is null") == [("sending", True)]


async def test_a_sender_that_must_go_hands_back_what_it_has_not_sent(admin: Admin, dsn: str) -> None:
    channel = Told()
    gate = asyncio.Event()
    channel.act = lambda _: gate.wait()
    put(admin, "a1", "a2", to="anna")
    async with working(dsn, send_work(channel), stop_seconds=0.2):
        await until(admin, lambda: channel.tries == ["a1"])
    assert look(admin, "status, starts, called_at is not null") == [("sending", 0, True), ("pending", 0, False)]
    again = Told()
    async with working(dsn, send_work(again)):
        await until(admin, lambda: all_sent(admin))
    assert again.words() == ["a1", "a2"]


async def test_what_ended_long_ago_leaves_with_its_history(admin: Admin, dsn: str) -> None:
    channel = Told()
    put(admin, "old")
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: all_sent(admin))
    move_clock(admin, 31 * 86_400.0)
    put(admin, "new")
    async with working(dsn, send_work(channel, retain_days=30)):
        await until(admin, lambda: look(admin, "payload ->> 'word'") == ["new"])
    assert admin.execute("select count(distinct key) from duly.transition where machine = 'outbox'").fetchone() == (1,)


# Notifications in place -----------------------------------------------------------------------------------------------


def put_notification(admin: Admin, *keys: str) -> None:
    """Messages about a day."""
    admin.execute(
        "insert into schedule_ingest.capture_session (id, user_id, payload, given_at, closed_at)"
        " values ('00000000-0000-0000-0000-000000000001', 42, '{}', duly.clock(), duly.clock()) on conflict do nothing"
    )
    for key in keys:
        admin.execute(
            "insert into schedule_ingest.schedule_notification"
            " (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)"
            " values (%s, 42, '2026-02-10', '00000000-0000-0000-0000-000000000001', 'event', %s, '[]')",
            [key, f"about {key}"],
        )


def notices(admin: Admin, columns: str = "status") -> list[Any]:
    """Every message about days."""
    rows = admin.execute(
        f"select {columns} from schedule_ingest.schedule_notification order by seq".encode()
    ).fetchall()
    return [row[0] if len(row) == 1 else row for row in rows]


async def test_notifications_are_sent_in_place(admin: Admin, dsn: str) -> None:
    channel = Told("telegram")
    put_notification(admin, "n1", "n2")
    async with working(dsn, send_work(channel, of=notification())):
        await until(admin, lambda: notices(admin) == ["sent", "sent"])
    assert [(message.id, message.text, message.recipient, message.kind) for message in channel.sent] == [
        ("n1", "about n1", "42", "schedule.event"),
        ("n2", "about n2", "42", "schedule.event"),
    ]
    assert notices(admin, "delivery, sent_at is not null, starts") == [("sent", True, 1)] * 2


async def test_the_contracts_statuses_keep_their_meaning_for_another_program(admin: Admin, dsn: str) -> None:
    channel = Told("telegram")
    put_notification(admin, "n1", "n2", "n3")
    admin.execute(
        "update schedule_ingest.schedule_notification set status = 'sent', sent_at = now() where notification_id = 'n1'"
    )
    admin.execute("update schedule_ingest.schedule_notification set status = 'failed' where notification_id = 'n2'")
    assert notices(admin, "status, delivery") == [("sent", "sent"), ("failed", "failed"), ("pending", "pending")]
    async with working(dsn, send_work(channel, of=notification())):
        await until(admin, lambda: notices(admin)[2] == "sent")
    assert [message.id for message in channel.sent] == ["n3"]


async def test_a_notification_that_fails_says_so_in_both_places(admin: Admin, dsn: str) -> None:
    channel = Told("telegram")
    channel.act = lambda _: WillNeverWork("blocked by the person")
    put_notification(admin, "n1")
    async with working(dsn, send_work(channel, of=notification())):
        await until(admin, lambda: notices(admin) == ["failed"])
    assert notices(admin, "delivery, last_error, sent_at") == [("failed", "blocked by the person", None)]


async def test_a_channel_that_is_off_leaves_its_messages_to_others(admin: Admin, dsn: str) -> None:
    put(admin, "mine", channel="test")
    put(admin, "theirs", channel="telegram")
    channel = Told()
    async with working(dsn, send_work(channel)):
        await until(admin, lambda: look(admin)[0] == "sent")
    assert look(admin, "status, starts") == [("sent", 1), ("pending", 0)]


async def test_a_backends_own_notifications_are_left_alone(admin: Admin, dsn: str) -> None:
    admin.execute("create schema theirs")
    admin.execute("create table theirs.schedule_notification (notification_id text primary key, status text)")
    admin.execute("grant usage on schema theirs to duly_worker")
    channel = Told("telegram")
    put(admin, "hello", channel="telegram")
    async with working(dsn, send_work(channel, of=notification("theirs")), send_work(channel)):
        await until(admin, lambda: all_sent(admin))


# What people do -------------------------------------------------------------------------------------------------------


async def test_people_send_again_and_say_what_arrived(admin: Admin, dsn: str) -> None:
    channel = Told(when_uncertain=WhenUncertain.ASK)
    failed, lost, other = put(admin, "failed", to="a") + put(admin, "lost", to="b") + put(admin, "other", to="c")

    def act(message: Message) -> object:
        word = message.payload["word"]
        return {"failed": WillNeverWork("no"), "lost": Unknown("?"), "other": Unknown("?")}[word]

    channel.act = act
    async with (
        working(dsn, send_work(channel)),
        open_pool(make_conninfo(admin.info.dsn, user=Names().api), size=1) as api,
    ):
        await until(admin, lambda: look(admin) == ["failed", "uncertain", "uncertain"])
        page = await service.list_messages(api, status="uncertain")
        assert [str(each.id) for each in page.items] == [other, lost]
        channel.act = lambda _: None
        await service.resend_message(api, UUID(failed))
        assert (await service.resolve_message(api, UUID(lost), was_sent=True)).status == "sent"
        assert (await service.resolve_message(api, UUID(other), was_sent=False)).status == "failed"
        await until(admin, lambda: look(admin) == ["sent", "sent", "failed"])
        with pytest.raises(IllegalMove, match="only what failed or is uncertain"):
            await service.resend_message(api, UUID(failed))
        with pytest.raises(IllegalMove, match="only of what is uncertain"):
            await service.resolve_message(api, UUID(failed), was_sent=True)
        with pytest.raises(NotFound):
            await service.resend_message(api, uuid4())
        with pytest.raises(InvalidArgument, match="status: must be one of"):
            await service.list_messages(api, status="lost")
    assert [message.id for message in channel.sent] == [failed]


def test_the_claim_and_the_sweep_find_their_indexes(admin: Admin) -> None:
    admin.execute(
        "insert into duly.outbox (channel, recipient, kind, payload) select 'mail', 'user' || n, 'alert', '{}'"
        " from generate_series(1, 20000) as n"
    )
    admin.execute("update duly.outbox set status = 'failed', last_error = 'withdrawn' where right(id::text, 1) > '1'")
    admin.execute("analyze duly.outbox")
    claim: dict[str, Any] = {"channels": ["mail"], "owner": "x", "lease_seconds": 1.0}
    for name, index, given in (
        ("claim_messages", "idx_outbox__channel_due_at_id", claim),
        ("claim_messages", "idx_outbox__channel_recipient_seq", claim),
        ("sweep_messages", "idx_outbox__id", {"keys": None, "most_starts": 3}),
        ("resend_uncertain", "idx_outbox__seq_uncertain", {"channels": ["mail"], "most_starts": 3}),
    ):
        statement = getattr(store.SQL.using(**store.names_of(OUTBOX)), name)
        with psycopg.ClientCursor(admin) as cursor:
            cursor.execute(b"explain " + statement.as_string(None).encode(), {"most": 10, "looked_at": 500, **given})
            assert index in str(cursor.fetchall()), name


def test_channels_are_switched_off_by_a_setting() -> None:
    assert set(channels_of(Settings())) == {"apprise", "console", "telegram", "webhook"}  # type: ignore[call-arg]
    assert set(channels_of(Settings(DULY_SENDER_OFF="telegram,webhook"))) == {"apprise", "console"}  # type: ignore[call-arg]


def test_a_program_of_yours_sends_by_the_statements_of_the_page(admin: Admin, dsn: str) -> None:
    (page,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "delivery.md").read_text(), re.DOTALL)
    take, settle = (each.replace("$1", "%s").replace("$2", "%s").encode() for each in page.split("\n\n"))
    put(admin, "first", "second", channel="webhook")
    with psycopg.connect(dsn, autocommit=True) as mailer:
        with pytest.raises(psycopg.Error, match="cannot go from pending to sent"):
            mailer.execute("update duly.outbox set status = 'sent'")
        taken = [mailer.execute(take).fetchone() for _ in range(3)]
        assert [each and each[3]["word"] for each in taken] == ["first", "second", None]
        for each in taken[:2]:
            assert each
            assert mailer.execute(settle, each[:2]).rowcount == 1
            assert mailer.execute(settle, each[:2]).rowcount == 0
    assert look(admin, "status, starts") == [("sent", 1), ("sent", 1)]
