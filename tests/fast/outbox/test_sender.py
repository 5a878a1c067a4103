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

from duly.assembly import build_channels, build_works
from duly.db.migrations import Names
from duly.db.pool import open_pool
from duly.errors import IllegalTransition, InvalidArgument, NotFound
from duly.launcher import ROOT
from duly.lease.operations import Lease
from duly.outbox import repository, service
from duly.outbox.channel import NotSent, OutboundMessage, OutcomeUnknown, UncertainPolicy, Undeliverable
from duly.outbox.states import OUTBOX, notification_table
from duly.settings import Settings
from tests.support.actions import working
from tests.support.fixtures import address_for
from tests.support.outbox.actions import LEASE, TUNING, MessageActions, ScriptedChannel, send_work


def all_sent(messages: MessageActions) -> bool:
    """Has every message gone out?"""
    return set(messages.columns("status")) == {"sent"}


async def call(messages: MessageActions, leases: list[Lease]) -> None:
    """Note that their transport is called, as a sender does that ends right after."""
    assert await repository.mark_called(messages.worker, OUTBOX, leases) == {lease.claim for lease in leases}


async def test_new_message_notifies_the_sender(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    asleep = replace(TUNING, poll_seconds=3600)
    messages.add_user()
    (wired,) = build_works(Settings(), ["outbox"])
    async with working(dsn, send_work(channel, tuning=asleep, notify_channel=wired.notify_channel)) as worker:
        messages.create("first")  # seen by the look that every worker begins with, if not by being woken
        await messages.until(lambda: messages.columns("status") == ["sent"])
        (cycle,) = worker.control.work_loops
        await messages.until(lambda: time.monotonic() > cycle.polling.awake_until)  # it no longer polls
        messages.create("second")
        await messages.until(lambda: messages.columns("status") == ["sent", "sent"])
    assert channel.words() == ["first", "second"]


async def test_due_messages_are_sent_and_logged(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    messages.add_user()
    (key,) = messages.create("hello")
    messages.create("later", due="duly.clock() + interval '1 hour'")
    messages.create("elsewhere", channel="pigeon")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status")[0] == "sent")
    assert channel.words() == ["hello"]
    (message,) = channel.sent
    assert (message.id, message.recipient, message.kind) == (key, "anna", "test.word")
    assert message.contact is not None
    assert messages.columns("status", "starts", "receipt", "called_at is not null", "sent_at is not null") == [
        ("sent", 1, "receipt 1", True, True),
        ("pending", 0, None, False, False),
        ("pending", 0, None, False, False),
    ]
    path = messages.admin.execute(
        "select next_status, actor is not null from duly.transition where key = %s order by seq", [key]
    ).fetchall()
    assert path == [("pending", False), ("sending", True), ("sent", True)]


async def test_unsent_message_is_retried_with_the_same_id(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    channel.act = lambda _: NotSent("busy") if len(channel.tries) < 3 else None
    (key,) = messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    assert len(channel.tries) == 3
    assert {message.id for message in channel.sent} == {key}
    assert messages.columns("starts", "last_error") == [(3, None)]


async def test_message_fails_after_max_starts_with_its_last_error(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    channel.act = lambda _: NotSent("out of order")
    messages.create("hello")
    async with working(dsn, send_work(channel, max_starts=3)):
        await messages.until(lambda: messages.columns("status") == ["failed"])
    assert messages.columns("starts", "last_error") == [(3, "out of order")]


async def test_unexpected_error_is_retried(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    channel.act = lambda _: ZeroDivisionError("oops") if len(channel.tries) < 2 else None
    messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    assert len(channel.tries) == 2


async def test_undeliverable_message_fails_at_once(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    channel.act = lambda _: Undeliverable("no such person")
    messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status") == ["failed"])
    assert messages.columns("starts", "last_error") == [(1, "no such person")]


async def test_retry_after_of_the_service_sets_the_delay(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    channel.act = lambda _: NotSent("slow down", retry_after=120.0) if len(channel.tries) < 2 else None
    messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("last_error") == ["slow down"])
        (wait,) = messages.columns("extract(epoch from due_at - duly.clock())::float")
        assert 110 < wait <= 120
        messages.advance_clock(121)
        await messages.until(lambda: all_sent(messages))


async def test_a_retried_message_is_not_overtaken_and_delays_no_other_recipient(
    messages: MessageActions, dsn: str
) -> None:
    channel = ScriptedChannel()
    channel.act = lambda message: (
        NotSent("busy") if message.payload["word"] == "a1" and channel.tries.count("a1") < 4 else None
    )
    messages.create("a1", "a2", "a3", to="anna")
    messages.create("b1", "b2", to="bo")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    words = channel.words()
    assert [word for word in words if word[0] == "a"] == ["a1", "a2", "a3"]
    assert words.index("b2") < words.index("a1")
    assert messages.columns("starts")[1:3] == [1, 1]  # waiting counts no start


async def test_messages_of_a_blocked_recipient_are_postponed(messages: MessageActions, dsn: str) -> None:
    messages.create(*(f"a{nth}" for nth in range(700)), to="anna")
    messages.create("b", to="bo")
    messages.admin.execute(
        "update duly.outbox set status = 'sending', starts = 1, lease_owner = 'x/1',"
        " lease_expires_at = duly.clock() + interval '1 min' where payload ->> 'word' = 'a0'"
    )
    messages.admin.execute(
        "update duly.outbox set status = 'pending', lease_owner = null, lease_expires_at = null,"
        " due_at = duly.clock() + interval '10 min' where payload ->> 'word' = 'a0'"
    )
    claimed = await messages.claim("test", limit=10)
    assert [lease.row["payload"]["word"] for lease in claimed] == ["b"]
    soon = messages.admin.execute(
        "select count(*) from duly.outbox where recipient = 'anna' and due_at < duly.clock() + interval '9 min'"
    ).fetchone()
    assert soon == (0,)


async def test_message_due_later_does_not_delay_others(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    messages.create("after quiet hours", due="duly.clock() + interval '1 hour'")
    messages.create("now")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status")[1] == "sent")
    assert messages.columns("status") == ["pending", "sent"]


# Uncertain ------------------------------------------------------------------------------------------------------------


async def test_a_message_whose_sender_died_before_the_call_is_pending_again(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    messages.create("hello")
    assert len(await messages.claim("test")) == 1
    messages.advance_clock(LEASE + 1)
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    assert channel.words() == ["hello"]
    assert messages.columns("starts") == [2]


async def test_a_swept_message_has_no_actor(messages: MessageActions, dsn: str) -> None:
    """An earlier sender least of all."""
    channel = ScriptedChannel()
    channel.act = lambda _: NotSent("not now")
    messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("settled_by") != [None])
    channel.act = lambda _: None
    messages.advance_clock(LEASE)
    assert len(await messages.claim("test")) == 1
    messages.advance_clock(LEASE + 1)
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    swept = "select actor from duly.transition where detail_json ->> 'error' like 'lease expired: the sender stopped%'"
    assert messages.admin.execute(swept).fetchall() == [(None,)]


async def test_a_message_whose_sender_died_after_the_call_is_uncertain(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel(uncertain_policy=UncertainPolicy.MANUAL)
    messages.create("hello", "behind it")
    await call(messages, await messages.claim("test", limit=1))
    messages.advance_clock(LEASE + 1)
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status") == ["uncertain", "sent"])  # it delays no other
    assert channel.words() == ["behind it"]
    assert messages.columns("last_error")[0] == "lease expired: the sender stopped after it had called the transport"


async def test_uncertain_message_is_resent_with_the_same_id_under_policy_resend(
    messages: MessageActions, dsn: str
) -> None:
    channel = ScriptedChannel(uncertain_policy=UncertainPolicy.RESEND)
    (key,) = messages.create("hello")
    await call(messages, await messages.claim("test"))
    messages.advance_clock(LEASE + 1)
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    assert [message.id for message in channel.sent] == [key]
    assert messages.path(key) == ["pending", "sending", "uncertain", "pending", "sending", "sent"]


async def test_outcome_unknown_makes_the_message_uncertain(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel(uncertain_policy=UncertainPolicy.MANUAL)
    channel.act = lambda _: OutcomeUnknown("the line went dead")
    messages.create("hello")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status") == ["uncertain"])
    assert messages.columns("last_error") == ["the line went dead"]


async def test_send_timeout_makes_the_message_uncertain_under_policy_manual(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel(uncertain_policy=UncertainPolicy.MANUAL)
    channel.act = lambda _: asyncio.Event().wait()
    messages.create("hello")
    async with working(dsn, send_work(channel, timeout_seconds=0.2)):
        await messages.until(lambda: messages.columns("status") == ["uncertain"])


async def test_sender_without_a_valid_lease_cannot_mark_a_message_called(messages: MessageActions, dsn: str) -> None:
    messages.create("hello")
    (lease,) = await messages.claim("test")
    messages.advance_clock(LEASE + 1)
    assert await repository.mark_called(messages.worker, OUTBOX, [lease]) == frozenset()
    assert messages.columns("status", "called_at is null") == [("sending", True)]


async def test_stopping_sender_releases_messages_that_it_has_not_sent(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    gate = asyncio.Event()
    channel.act = lambda _: gate.wait()
    messages.create("a1", "a2", to="anna")
    async with working(dsn, send_work(channel), stop_seconds=0.2):
        await messages.until(lambda: channel.tries == ["a1"])
    assert messages.columns("status", "starts", "called_at is not null") == [
        ("sending", 0, True),
        ("pending", 0, False),
    ]
    again = ScriptedChannel()
    async with working(dsn, send_work(again)):
        await messages.until(lambda: all_sent(messages))
    assert again.words() == ["a1", "a2"]


async def test_old_finished_messages_are_deleted_with_their_history(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel()
    messages.create("old")
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: all_sent(messages))
    messages.advance_clock(31 * 86_400.0)
    messages.create("new")
    async with working(dsn, send_work(channel, retain_days=30)):
        await messages.until(lambda: messages.columns("payload ->> 'word'") == ["new"])
    assert messages.one("select count(distinct key) from duly.transition where machine = 'outbox'") == 1


# Notifications in place -----------------------------------------------------------------------------------------------


def create_notifications(messages: MessageActions, *keys: str) -> None:
    """Create messages about a day."""
    messages.admin.execute(
        "insert into schedule_ingest.capture_session (id, user_id, payload, given_at, closed_at)"
        " values ('00000000-0000-0000-0000-000000000001', 42, '{}', duly.clock(), duly.clock()) on conflict do nothing"
    )
    for key in keys:
        messages.admin.execute(
            "insert into schedule_ingest.schedule_notification"
            " (notification_id, user_id, schedule_date, source_session_id, notification_type, message, event_ids)"
            " values (%s, 42, '2026-02-10', '00000000-0000-0000-0000-000000000001', 'event', %s, '[]')",
            [key, f"about {key}"],
        )


def notifications(messages: MessageActions, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of every message about a day, in their order."""
    return messages.rows(f"select {', '.join(columns)} from schedule_ingest.schedule_notification order by seq")


def statuses(messages: MessageActions) -> list[str]:
    """Return the status of every message about a day."""
    return [status for (status,) in notifications(messages, "status")]


async def test_notifications_are_sent_from_their_own_table(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel("telegram")
    create_notifications(messages, "n1", "n2")
    async with working(dsn, send_work(channel, table=notification_table())):
        await messages.until(lambda: statuses(messages) == ["sent", "sent"])
    assert [(message.id, message.text, message.recipient, message.kind) for message in channel.sent] == [
        ("n1", "about n1", "42", "schedule.event"),
        ("n2", "about n2", "42", "schedule.event"),
    ]
    assert notifications(messages, "delivery", "sent_at is not null", "starts") == [("sent", True, 1)] * 2


async def test_statuses_written_by_another_program_are_respected(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel("telegram")
    create_notifications(messages, "n1", "n2", "n3")
    messages.admin.execute(
        "update schedule_ingest.schedule_notification set status = 'sent', sent_at = now() where notification_id = 'n1'"
    )
    messages.admin.execute(
        "update schedule_ingest.schedule_notification set status = 'failed' where notification_id = 'n2'"
    )
    assert notifications(messages, "status", "delivery") == [
        ("sent", "sent"),
        ("failed", "failed"),
        ("pending", "pending"),
    ]
    async with working(dsn, send_work(channel, table=notification_table())):
        await messages.until(lambda: statuses(messages)[2] == "sent")
    assert [message.id for message in channel.sent] == ["n3"]


GRANTS_OF_ANOTHER_SENDER = (  # as docs/delivery.md has them
    "grant usage on schema schedule_ingest to {}",
    "grant select, update (status, sent_at) on schedule_ingest.schedule_notification to {}",
)


def test_documented_grants_suffice_for_another_sender(messages: MessageActions, worker_id: str) -> None:
    page = " ".join((ROOT / "docs" / "delivery.md").read_text().split())
    assert all(grant.format("csharp") in page for grant in GRANTS_OF_ANOTHER_SENDER)
    create_notifications(messages, "n1", "n2")
    login = f"csharp_{worker_id}"
    messages.admin.execute(f"create role {login} login".encode())
    try:
        for grant in GRANTS_OF_ANOTHER_SENDER:
            messages.admin.execute(grant.format(login).encode())
        with psycopg.connect(address_for(messages.admin, login), autocommit=True) as program:
            pending = "select notification_id from schedule_ingest.schedule_notification where status = 'pending'"
            assert program.execute(pending).fetchall() == [("n1",), ("n2",)]
            move = "update schedule_ingest.schedule_notification set {} where notification_id = '{}'"
            program.execute(move.format("status = 'sent', sent_at = now()", "n1").encode())
            program.execute(move.format("status = 'failed'", "n2").encode())
        assert notifications(messages, "status", "sent_at is not null", "delivery") == [
            ("sent", True, "sent"),
            ("failed", False, "failed"),
        ]
    finally:
        messages.admin.execute(f"drop owned by {login}".encode())
        messages.admin.execute(f"drop role {login}".encode())


async def test_failed_notification_sets_delivery_and_status(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel("telegram")
    channel.act = lambda _: Undeliverable("blocked by the person")
    create_notifications(messages, "n1")
    async with working(dsn, send_work(channel, table=notification_table())):
        await messages.until(lambda: statuses(messages) == ["failed"])
    assert notifications(messages, "delivery", "last_error", "sent_at") == [("failed", "blocked by the person", None)]


async def test_messages_of_a_disabled_channel_stay_pending(messages: MessageActions, dsn: str) -> None:
    messages.create("mine", channel="test")
    messages.create("theirs", channel="telegram")
    channel = ScriptedChannel()
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status")[0] == "sent")
    assert messages.columns("status", "starts") == [("sent", 1), ("pending", 0)]


async def test_notifications_table_of_another_backend_is_left_alone(messages: MessageActions, dsn: str) -> None:
    messages.admin.execute("create schema theirs")
    messages.admin.execute("create table theirs.schedule_notification (notification_id text primary key, status text)")
    messages.admin.execute("grant usage on schema theirs to duly_worker")
    channel = ScriptedChannel("telegram")
    messages.create("hello", channel="telegram")
    async with working(dsn, send_work(channel, table=notification_table("theirs")), send_work(channel)):
        await messages.until(lambda: all_sent(messages))


# What people do -------------------------------------------------------------------------------------------------------


async def test_operator_can_resend_and_resolve_messages(messages: MessageActions, dsn: str) -> None:
    channel = ScriptedChannel(uncertain_policy=UncertainPolicy.MANUAL)
    failed, lost, other = (
        messages.create("failed", to="a") + messages.create("lost", to="b") + messages.create("other", to="c")
    )

    def act(message: OutboundMessage) -> object:
        word = message.payload["word"]
        return {"failed": Undeliverable("no"), "lost": OutcomeUnknown("?"), "other": OutcomeUnknown("?")}[word]

    channel.act = act
    async with (
        working(dsn, send_work(channel)),
        open_pool(make_conninfo(messages.admin.info.dsn, user=Names().api), size=1) as api,
    ):
        await messages.until(lambda: messages.columns("status") == ["failed", "uncertain", "uncertain"])
        page = await service.list_messages(api, status="uncertain")
        assert [str(each.id) for each in page.items] == [other, lost]
        channel.act = lambda _: None
        await service.resend_message(api, UUID(failed))
        assert (await service.resolve_message(api, UUID(lost), was_sent=True)).status == "sent"
        assert (await service.resolve_message(api, UUID(other), was_sent=False)).status == "failed"
        await messages.until(lambda: messages.columns("status") == ["sent", "sent", "failed"])
        with pytest.raises(IllegalTransition, match="only failed or uncertain messages can be resent"):
            await service.resend_message(api, UUID(failed))
        with pytest.raises(IllegalTransition, match="only uncertain messages can be resolved"):
            await service.resolve_message(api, UUID(failed), was_sent=True)
        with pytest.raises(NotFound):
            await service.resend_message(api, uuid4())
        with pytest.raises(InvalidArgument, match="status: must be one of"):
            await service.list_messages(api, status="lost")
    assert [message.id for message in channel.sent] == [failed]


def test_setting_disables_channels() -> None:
    assert set(build_channels(Settings())) == {"apprise", "console", "webhook"}
    assert set(build_channels(Settings(DULY_SENDER_OFF="telegram,webhook"))) == {"apprise", "console"}  # type: ignore[call-arg]


def test_documented_statements_claim_and_settle_messages(messages: MessageActions, dsn: str) -> None:
    (page,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "delivery.md").read_text(), re.DOTALL)
    take, settle = (each.replace("$1", "%s").replace("$2", "%s").encode() for each in page.split("\n\n"))
    messages.create("first", "second", channel="webhook")
    with psycopg.connect(dsn, autocommit=True) as mailer:
        with pytest.raises(psycopg.Error, match="cannot go from pending to sent"):
            mailer.execute("update duly.outbox set status = 'sent'")
        claimed_rows = [mailer.execute(take).fetchone() for _ in range(3)]
        assert [each and each[3]["word"] for each in claimed_rows] == ["first", "second", None]
        for each in claimed_rows[:2]:
            assert each
            assert mailer.execute(settle, each[:2]).rowcount == 1
            assert mailer.execute(settle, each[:2]).rowcount == 0
    assert messages.columns("status", "starts") == [("sent", 1), ("sent", 1)]
