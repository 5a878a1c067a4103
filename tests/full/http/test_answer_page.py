"""The page behind a link in a message: looking answers nothing, its button answers once, and nobody makes one up."""

import asyncio
import json
import re
from contextlib import ExitStack

import httpx2
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.outbox.answer_links import Links
from duly.outbox.channels.apprise import AppriseChannel
from tests.fast.http.test_answer_page import Reminded, house
from tests.fast.http.test_scheduler import House
from tests.support.actions import working
from tests.support.outbox.actions import MessageActions, send_work
from tests.support.outbox.receiver import Answer, Receiver

__all__ = ["house"]


async def test_from_the_reminder_to_the_books_by_a_link_that_was_sent(house: House) -> None:
    """Planned, sent by apprise to a real server, opened, answered, booked: as a person meets it."""
    anna = await asyncio.to_thread(Reminded, house, "zh", "房租")
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        receiver.answer = lambda _: Answer(200)
        house.admin.execute(
            'insert into "user".apprise_addresses (user_id, url) select id, %s from "user".users where uid = %s',
            [f"json://127.0.0.1:{receiver.server.server_port}/", "anna"],
        )
        message = house.admin.execute(
            "insert into duly.outbox (channel, recipient, kind, payload)"
            " select channel, recipient, kind, payload from duly.outbox returning id"
        ).fetchone()
        assert message
        dsn = make_conninfo(house.database, user=Names().worker)
        channel = AppriseChannel(seconds=20, allow_private=True)
        async with working(dsn, send_work(channel, links=Links(f"{house.address}/"))), await connect(dsn) as worker:
            messages = MessageActions(house.admin, worker)
            await messages.until(lambda: messages.columns("status")[-1] == "sent")
        text: str = json.loads(receiver.posted[-1].body)["message"]
    links = dict(re.findall(r"^(\S.*): (http\S+)$", text, re.MULTILINE))
    assert list(links) == ["完成", "跳过", "稍后", "明天", "取消"]
    async with httpx2.AsyncClient(timeout=60) as client:
        page = await client.get(links["完成"])
        assert "房租" in page.text
        assert anna.counts() == (0, 0)
        assert (await client.post(links["完成"])).status_code == 200
    assert anna.counts() == (1, 1)
