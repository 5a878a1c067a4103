"""Apprise: whatever service a person's address names, the words arrive, and nothing else of this machine is reached."""

import asyncio

import pytest

from duly.outbox.channel import OutcomeUnknown, UncertainPolicy
from duly.outbox.channels.apprise import AppriseChannel
from tests.fast.outbox.test_apprise import at, channel, message, received_mail
from tests.support.actions import working
from tests.support.outbox.actions import MessageActions, send_work
from tests.support.outbox.receiver import Receiver

__all__ = ["channel"]


async def test_an_apprise_service_without_a_response_raises_outcome_unknown_and_frees_its_thread(
    receiver: Receiver,
) -> None:
    channel = AppriseChannel(seconds=20, allow_private=True)
    await channel.send(message(at(receiver, "json")))  # imports the library, which takes its time on a busy machine
    receiver.gate.clear()
    channel.seconds = 2
    with pytest.raises(OutcomeUnknown, match=r"json: no response within 2 s"):
        await channel.send(message(at(receiver, "json", "?rto=600&cto=600")))
    await asyncio.to_thread(channel.threads.shutdown, wait=True)  # which would hang if the thread still waited
    assert channel.uncertain_policy is UncertainPolicy.MANUAL


async def test_an_apprise_service_that_responds_slowly_is_cut_off(receiver: Receiver) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            while (await received_mail(reader)) != b"":  # until the other side is gone
                writer.write(b" ")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
            loop.call_soon(stopped.set)

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        channel = AppriseChannel(seconds=20, allow_private=True)
        await channel.send(message(at(receiver, "json")))  # imports the library, as above
        channel.seconds = 2
        with pytest.raises(OutcomeUnknown):
            await channel.send(message(f"json://127.0.0.1:{port}/"))
        await asyncio.wait_for(stopped.wait(), 20)
        await asyncio.to_thread(channel.threads.shutdown, wait=True)


async def test_an_apprise_message_that_timed_out_is_uncertain_and_not_resent(
    messages: MessageActions, dsn: str, receiver: Receiver
) -> None:
    messages.add_user("anna")
    messages.admin.execute(
        "insert into duly.apprise_addresses (person_id, url) select id, %s from duly.person", [at(receiver, "json")]
    )
    channel = AppriseChannel(seconds=20, allow_private=True)
    await channel.send(message(at(receiver, "json")))  # imports the library, as above
    receiver.posted.clear()
    channel.seconds = 2
    messages.create("word", channel="apprise")
    receiver.gate.clear()
    async with working(dsn, send_work(channel)):
        await messages.until(lambda: messages.columns("status") == ["uncertain"])
    assert messages.columns("last_error") == ["json: no response within 2 s"]
    assert len(receiver.posted) <= 1  # cut off behind the connection, it may not have come; it is not sent again
