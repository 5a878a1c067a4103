"""What tests of the bot do all the time: let people be reminded, let the bot listen, wait for what it says."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.settings import Settings
from duly.storage import Objects
from duly.storage.directory import Directory
from duly.telegram.channel import Telegram
from duly.telegram.dispatcher import open_reception
from duly.telegram.polling import Poller
from tests.support.actions import working
from tests.support.bot_api import FakeTelegram, Json, Someone
from tests.support.forking import ForkedProgram
from tests.support.outbox.actions import send_work
from tests.support.processes import Program
from tests.support.scheduler.actions import ScheduleActions

__all__ = ["House"]

NOW = "2026-11-16T10:00:01+00:00"
BOT = ("duly.cli.app", "duly.cli.bot", "duly.telegram.polling", "duly.telegram.dispatcher")  # what `duly bot` imports


class Bot(ForkedProgram):
    """A bot, forked from a parent that has imported Telegram's library."""

    imports = BOT


class House:
    """A scheduler, a Bot API, and a bot between them."""

    def __init__(self, schedules: ScheduleActions, telegram: FakeTelegram, objects: Objects) -> None:
        self.schedules = schedules
        self.telegram = telegram
        self.objects = objects

    def settings(self, **more: Any) -> Settings:
        """The settings of a bot here."""
        given: dict[str, Any] = {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_API_URL": self.telegram.url,
            "TELEGRAM_POLL_SECONDS": 5,
            "TELEGRAM_SECONDS": 5,
        }
        return Settings(**given | more)

    @asynccontextmanager
    async def listening(self, **more: Any) -> AsyncGenerator[Poller, None]:
        """A bot in this process, stopped politely at the end."""
        stop = asyncio.Event()
        settings = self.settings(**more)
        async with open_reception(settings, self.schedules.api, self.objects) as reception:
            poller = Poller(reception, settings.telegram_poll_seconds)
            running = asyncio.create_task(poller.run(stop))
            try:
                yield poller
            finally:
                stop.set()
                await running

    def bot_process(self, **more: str) -> Program:
        """A bot as a process of its own, which can be killed."""
        assert isinstance(self.objects.place, Directory)
        return Bot(
            "duly",
            "bot",
            "--json",
            DATABASE_URL=make_conninfo(self.schedules.admin.info.dsn, user=Names().api),
            TELEGRAM_BOT_TOKEN=self.telegram.token,
            TELEGRAM_API_URL=self.telegram.url,
            TELEGRAM_POLL_SECONDS="5",
            TELEGRAM_SECONDS="5",
            DULY_OBJECTS_DIR=str(self.objects.place.root),
            **more,
        )

    async def wait(self, condition: Any) -> Any:
        """Wait until something is so, while the bot in this process goes on."""
        return await asyncio.to_thread(self.telegram.wait, condition)

    async def remind(self, someone: Someone, **wanted: Any) -> Json:
        """Let somebody be reminded of something by Telegram, and return the message that came."""
        self.schedules.set_clock(NOW)
        uid = wanted.pop("uid", "anna")
        self.schedules.add_user(uid, telegram_id=someone.id, language=someone.language, zone="Europe/Stockholm")
        first = datetime(2026, 11, 16, 10, tzinfo=UTC)
        await self.schedules.create_with_expense(
            rule="cron: CRON_TZ=UTC 0 10 * * *", first_run_at=first, uid=uid, **wanted
        )
        await self.schedules.plan()
        await self.schedules.remind()
        return await self.send(someone)

    async def send(self, someone: Someone) -> Json:
        """Send what is due by Telegram, as a sender does; the last message that came."""
        before = len(someone.messages())
        channel = Telegram(self.telegram.token, self.telegram.url, seconds=5)
        dsn = make_conninfo(self.schedules.admin.info.dsn, user=Names().worker)
        async with working(dsn, send_work(channel)):
            await self.wait(lambda: len(someone.messages()) > before)
            await asyncio.to_thread(self.settle)
        return someone.messages()[-1]

    async def come_back(self, someone: Someone, message: Json) -> Json:
        """Let somebody put off what they were reminded of, while the bot listens; the message of an hour later."""
        someone.press(message, "In 1 hour")
        await self.wait(lambda: "Later" in someone.read()[0])
        self.schedules.advance_clock(hours=1, seconds=1)
        await self.schedules.remind()
        return await self.send(someone)

    def settle(self) -> None:
        """Wait until the sender has written down what it sent."""
        while self.schedules.one("select count(*) from duly.outbox where status in ('pending', 'sending')"):
            self.schedules.admin.execute("select pg_sleep(0.02)")

    # Looking ----------------------------------------------------------------------------------------------------------

    def answers(self) -> list[Any]:
        """Every answer that counted."""
        return self.schedules.values("select action from scheduler.confirmations order by id")

    def booked(self) -> list[Any]:
        """What stands in the books."""
        return self.schedules.values(
            "select trim_scale(amount)::text || ' ' || currency from expense.expenses order by id"
        )

    def sessions(self) -> list[Any]:
        """Every session, whether it is closed, and how many images it has."""
        return self.schedules.rows(
            "select s.closed_at is not null, (select count(*) from schedule_ingest.capture_image i"
            " where i.session_id = s.id) from schedule_ingest.capture_session s order by s.created_at, s.id"
        )
