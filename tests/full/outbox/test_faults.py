"""Senders that are killed while they send: nothing is lost, and what comes twice comes with its id and is known."""

import random
import time
from collections import Counter

from tests.support.actions import Admin
from tests.support.outbox.actions import MessageActions
from tests.support.outbox.receiver import Answer, Posted, Receiver
from tests.support.send_worker import SenderPool

SECONDS = 60.0
PEOPLE = 12
MESSAGES = 240
KILLS = 12
PUT = """
insert into duly.outbox (channel, recipient, kind, payload)
select 'webhook', 'user' || n %% %(people)s, 'test.word', jsonb_build_object('n', n, 'text', 'x')
from generate_series(1, %(messages)s) as n
"""
TRIES = """
select o.id::text, o.recipient, (o.payload ->> 'n')::int,
    count(*) filter (where t.next_status = 'sending'), count(*) filter (where t.next_status = 'uncertain')
from duly.outbox as o join duly.transition as t on t.machine = 'outbox' and t.key = o.id::text
group by o.id
"""


def wait_until_sent(messages: MessageActions) -> None:
    """Wait until every message is sent."""
    deadline = time.monotonic() + SECONDS
    while set(messages.columns("status")) != {"sent"}:
        assert time.monotonic() < deadline, Counter(messages.columns("status", "last_error"))
        messages.admin.execute("select pg_sleep(0.05)")


def test_killed_senders_lose_no_message_and_repeat_only_recorded_attempts(
    messages: MessageActions, admin: Admin, dsn: str, receiver: Receiver
) -> None:
    for nth in range(PEOPLE):
        messages.add_webhook(f"user{nth}", receiver.url)
    admin.execute(PUT, {"people": PEOPLE, "messages": MESSAGES})
    chance = random.Random(7)  # noqa: S311

    def answer(_: Posted) -> Answer:
        admin_pause = chance.random() * 0.01
        deadline = time.monotonic() + admin_pause
        while time.monotonic() < deadline:
            pass
        return Answer(503) if chance.random() < 0.05 else Answer()

    receiver.answer = answer
    with SenderPool(dsn, "lease_seconds=1.5") as senders:
        alive = [senders.start(), senders.start()]
        for _ in range(KILLS):
            admin.execute("select pg_sleep(%s)", [chance.uniform(0.05, 0.4)])
            victim = alive.pop(chance.randrange(2))
            senders.kill(victim)
            alive.append(senders.start())
        wait_until_sent(messages)
    received = Counter(receiver.ids())
    tries = {key: (to, nth, begun, uncertain) for key, to, nth, begun, uncertain in admin.execute(TRIES).fetchall()}
    assert set(received) == set(tries)  # nothing is lost, and nothing is invented
    for key, times in received.items():
        assert times <= tries[key][2], "each request belongs to a start that the log knows"
    assert sum(times > 1 for times in received.values()) <= sum(tries[key][2] > 1 for key in tries)
    firsts: dict[str, list[int]] = {}
    for key in dict.fromkeys(receiver.ids()):
        firsts.setdefault(tries[key][0], []).append(tries[key][1])
    assert all(order == sorted(order) for order in firsts.values()), "each recipient got them in their order"
