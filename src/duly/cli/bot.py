"""`duly bot`: asks Telegram for what people tap and write, until told to stop."""

import asyncio
import signal
import sys

from duly.cli.opening import open_existing
from duly.db.location import role_on
from duly.db.pool import open_pool
from duly.errors import Misconfigured
from duly.executors.lifeline import follow_parent
from duly.extras import install
from duly.logging import configure_logs, get_log
from duly.settings import Settings, load_settings
from duly.storage import open_objects

__all__ = ["run_bot"]


def run_bot(as_json: bool) -> None:
    """Poll as the API's role, on the database of the settings."""
    follow_parent()
    settings = load_settings()
    configure_logs(settings, sys.stderr if as_json else None)
    if settings.telegram_token is None:
        raise Misconfigured("TELEGRAM_BOT_TOKEN is not set; ask BotFather for a bot and set it to the bot's token")
    if settings.telegram_webhook_url:
        raise Misconfigured(
            f"TELEGRAM_WEBHOOK_URL={settings.telegram_webhook_url}: Telegram posts the updates to the API, and gives "
            "them to nobody else; unset it to ask for them here"
        )
    install("telegram")
    with open_existing(settings, get_log(__name__).warning) as database:
        asyncio.run(poll(settings, database.dsn))


async def poll(settings: Settings, dsn: str) -> None:
    """Ask and take until SIGINT or SIGTERM; what is under way is brought to its end."""
    from duly.telegram.dispatcher import open_reception
    from duly.telegram.polling import Poller

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        open_pool(dsn, size=settings.pool_size, role=role_on(dsn, settings.api_role), name="duly-bot") as pool,
        open_reception(settings, pool, open_objects(settings)) as reception,
    ):
        await Poller(reception, settings.telegram_poll_seconds).run(stop)
