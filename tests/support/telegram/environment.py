"""The environment of bot tests: send reminders, run the bot, and wait for its messages."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from psycopg.conninfo import make_conninfo

from duly.db.migrations import Names
from duly.settings import Settings
from duly.storage import ObjectStore
from duly.storage.directory import Directory
from duly.telegram.channel import Telegram
from duly.telegram.dispatcher import open_dispatcher
from duly.telegram.polling import Poller
from tests.support.actions import working
from tests.support.bot_api import FakeTelegram, FakeUser, Json
from tests.support.forking import ForkedProgram
from tests.support.outbox.actions import send_work
from tests.support.processes import Program
from tests.support.scheduler.actions import ScheduleActions

NOW = "2026-11-16T10:00:01+00:00"
BOT = (
    "duly.cli.app",
    "duly.telegram.cli",
    "duly.telegram.polling",
    "duly.telegram.dispatcher",
)  # what `duly bot` imports


class Bot(ForkedProgram):
    """A bot process, forked from a parent that has imported aiogram."""

    imports = BOT


class BotTestEnvironment:
    """A scheduler, a fake Bot API, and a bot between them."""

    def __init__(self, schedules: ScheduleActions, telegram: FakeTelegram, objects: ObjectStore) -> None:
        self.schedules = schedules
        self.telegram = telegram
        self.objects = objects

    def settings(self, **more: Any) -> Settings:
        """Return the settings of the bot."""
        given: dict[str, Any] = {
            "TELEGRAM_BOT_TOKEN": self.telegram.token,
            "TELEGRAM_API_URL": self.telegram.url,
            "TELEGRAM_POLL_SECONDS": 5,
            "TELEGRAM_SECONDS": 5,
        }
        return Settings(**given | more)

    @asynccontextmanager
    async def listening(self, **more: Any) -> AsyncGenerator[Poller, None]:
        """Run a bot in this process, stopped gracefully at the end."""
        stop = asyncio.Event()
        settings = self.settings(**more)
        async with open_dispatcher(settings, self.schedules.api, self.objects) as dispatcher:
            poller = Poller(dispatcher, settings.telegram_poll_seconds)
            running = asyncio.create_task(poller.run(stop))
            try:
                yield poller
            finally:
                stop.set()
                await running

    def bot_process(self, **more: str) -> Program:
        """Start a bot process, which can be killed."""
        assert isinstance(self.objects.backend, Directory)
        return Bot(
            "duly",
            "bot",
            "--json",
            DATABASE_URL=make_conninfo(self.schedules.admin.info.dsn, user=Names().api),
            TELEGRAM_BOT_TOKEN=self.telegram.token,
            TELEGRAM_API_URL=self.telegram.url,
            TELEGRAM_POLL_SECONDS="5",
            TELEGRAM_SECONDS="5",
            DULY_OBJECTS_DIR=str(self.objects.backend.root),
            **more,
        )

    async def wait(self, condition: Any) -> Any:
        """Wait until a condition is true, while the bot in this process goes on."""
        return await asyncio.to_thread(self.telegram.wait, condition)

    async def remind(self, someone: FakeUser, **wanted: Any) -> Json:
        """Send a reminder to a user by Telegram, and return the message."""
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

    async def send(self, someone: FakeUser) -> Json:
        """Send due messages by Telegram with a real sender, and return the last message."""
        before = len(someone.messages())
        channel = Telegram(self.telegram.token, self.telegram.url, seconds=5)
        dsn = make_conninfo(self.schedules.admin.info.dsn, user=Names().worker)
        async with working(dsn, send_work(channel)):
            await self.wait(lambda: len(someone.messages()) > before)
            await asyncio.to_thread(self.settle)
        return someone.messages()[-1]

    async def come_back(self, someone: FakeUser, message: Json) -> Json:
        """Snooze a reminder for an hour, and return the next message; needs a running bot."""
        someone.press(message, "In 1 hour")
        await self.wait(lambda: "Later" in someone.texts()[0])
        self.schedules.advance_clock(hours=1, seconds=1)
        await self.schedules.remind()
        return await self.send(someone)

    def settle(self) -> None:
        """Wait until the sender has recorded all messages."""
        while self.schedules.one("select count(*) from duly.outbox where status in ('pending', 'sending')"):
            self.schedules.admin.execute("select pg_sleep(0.02)")

    # Queries ----------------------------------------------------------------------------------------------------------

    def answers(self) -> list[Any]:
        """Return all accepted answers."""
        return self.schedules.values("select action from scheduler.confirmations order by id")

    def booked(self) -> list[Any]:
        """Return all booked expenses."""
        return self.schedules.values(
            "select trim_scale(amount)::text || ' ' || currency from expense.expenses order by id"
        )

    def sessions(self) -> list[Any]:
        """Return for every session whether it is closed, and its number of images."""
        return self.schedules.rows(
            "select s.closed_at is not null, (select count(*) from schedule_ingest.capture_image i"
            " where i.session_id = s.id) from schedule_ingest.capture_session s order by s.created_at, s.id"
        )
