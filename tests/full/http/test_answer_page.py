"""The answer page behind a link: opening it changes nothing, its button answers once, and no link can be forged."""

import asyncio
import json
import re
from contextlib import ExitStack

import httpx2
from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.db.pool import connect
from duly.outbox.answer_links import AnswerLinks
from duly.outbox.channels.apprise import AppriseChannel
from tests.fast.http.test_answer_page import Reminded, env
from tests.fast.http.test_scheduler import ApiEnvironment
from tests.support.actions import working
from tests.support.outbox.actions import MessageActions, send_work
from tests.support.outbox.receiver import Answer, Receiver

__all__ = ["env"]


async def test_a_reminder_link_sent_by_apprise_answers_the_run_and_books_the_expense(env: ApiEnvironment) -> None:
    """The full path: planned, sent by apprise to a real server, opened, answered, booked."""
    anna = await asyncio.to_thread(Reminded, env, "zh", "房租")
    with ExitStack() as stack:
        receiver = stack.enter_context(Receiver())
        receiver.answer = lambda _: Answer(200)
        env.admin.execute(
            "insert into duly.apprise_addresses (person_id, url) select id, %s from duly.person where uid = %s",
            [f"json://127.0.0.1:{receiver.server.server_port}/", "anna"],
        )
        message = env.admin.execute(
            "insert into duly.outbox (channel, recipient, kind, payload)"
            " select channel, recipient, kind, payload from duly.outbox returning id"
        ).fetchone()
        assert message
        dsn = make_conninfo(env.database, user=Names().worker)
        channel = AppriseChannel(seconds=20, allow_private=True)
        async with working(dsn, send_work(channel, links=AnswerLinks(f"{env.address}/"))), await connect(dsn) as worker:
            messages = MessageActions(env.admin, worker)
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
