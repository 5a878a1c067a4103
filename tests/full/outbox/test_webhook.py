"""Webhooks: signed, to public addresses only, without redirects, read and waited for only so far."""

import json

from duly.outbox.channels.webhook import WebhookChannel
from tests.fast.outbox.test_webhook import webhook
from tests.support.actions import working
from tests.support.outbox.actions import MessageActions, send_work
from tests.support.outbox.receiver import Answer, Receiver

__all__ = ["webhook"]


# With the sender ------------------------------------------------------------------------------------------------------


async def test_a_message_is_delivered_by_webhook(
    messages: MessageActions, dsn: str, receiver: Receiver, webhook: WebhookChannel
) -> None:
    messages.add_webhook("anna", receiver.url)
    messages.add_user("bo")
    keys = messages.create("first", "second", channel="webhook")
    messages.create("without an address", to="bo", channel="webhook")
    receiver.answer = lambda _: Answer(503, (("retry-after", "0"),)) if len(receiver.posted) < 2 else Answer()
    async with working(dsn, send_work(webhook)):
        await messages.until(lambda: messages.columns("status") == ["sent", "sent", "failed"])
    assert receiver.ids() == [keys[0], keys[0], keys[1]]
    assert [json.loads(each.body)["data"]["word"] for each in receiver.posted] == ["first", "first", "second"]
    assert messages.columns("receipt", "starts") == [("HTTP 204", 2), ("HTTP 204", 1), (None, 1)]
