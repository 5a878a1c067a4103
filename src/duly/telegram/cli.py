"""`duly bot`: the Telegram bot, by long polling."""

import asyncio
import signal
import sys

import typer

from duly.applications import BOT_SERVES, SETTING, has_bot
from duly.cli.existing_database import log_warning, open_existing
from duly.cli.options import Json
from duly.db.location import role_to_set
from duly.db.pool import open_pool
from duly.errors import Misconfigured
from duly.executors.lifeline import exit_with_parent
from duly.extras import install
from duly.logging import configure_logs
from duly.settings import Settings, load_settings

app = typer.Typer()


@app.command("bot")
def run_bot(as_json: Json = False) -> None:
    """Run the Telegram bot by long polling.

    SIGTERM or Ctrl-C stops it after the updates it is handling.

    Example: TELEGRAM_BOT_TOKEN=123456:AA... DATABASE_URL=postgresql://localhost/app duly bot
    """
    exit_with_parent()
    settings = load_settings()
    configure_logs(settings, sys.stderr if as_json else None)
    if settings.telegram_token is None:
        raise Misconfigured("TELEGRAM_BOT_TOKEN is not set; create a bot with BotFather and set it to the bot's token")
    if settings.telegram_webhook_url:
        raise Misconfigured(
            f"TELEGRAM_WEBHOOK_URL={settings.telegram_webhook_url}: Telegram posts the updates to the API and refuses "
            "polling; unset it to poll here"
        )
    if not has_bot(settings.apps):
        raise Misconfigured(
            f"{SETTING}={settings.apps}: the bot serves the applications {' and '.join(BOT_SERVES)}; switch both on, "
            "or do not start it: messages are sent to Telegram without it"
        )
    install("telegram")
    with open_existing(settings, log_warning) as database:
        asyncio.run(poll(settings, database.dsn))


async def poll(settings: Settings, dsn: str) -> None:
    """Poll and handle updates until SIGINT or SIGTERM; updates being handled are finished."""
    from duly.storage import open_object_store
    from duly.telegram.dispatcher import open_dispatcher
    from duly.telegram.polling import Poller

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        open_pool(dsn, size=settings.pool_size, role=role_to_set(dsn, settings.api_role), name="duly-bot") as pool,
        open_dispatcher(settings, pool, open_object_store(settings)) as dispatcher,
    ):
        await Poller(dispatcher, settings.telegram_poll_seconds).run(stop)
