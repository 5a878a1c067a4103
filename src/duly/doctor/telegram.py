"""Telegram: the token of the bot, and how it receives updates."""

from collections.abc import Sequence
from typing import Any

from duly.doctor.context import CheckContext
from duly.doctor.finding import Note, bad, ok, warn
from duly.errors import MissingExtra, Unavailable
from duly.extras import require
from duly.settings import Settings

NO_BOT = "TELEGRAM_BOT_TOKEN is not set: messages for Telegram {fate}; set it to use a bot"
WAIT = "wait, and fail after 7 days"
ON_CONSOLE = "are printed on the console"
BY_UP = "are printed on the console by `duly up`; with any other worker they wait, and fail after 7 days"
MANY_UPDATES = 100


def check_telegram(context: CheckContext) -> Sequence[Note]:
    """Call the Bot API for the bot and its webhook; no note contains the token."""
    settings = context.settings
    if settings.telegram_token is None:
        fate = ON_CONSOLE if settings.telegram_on_console else BY_UP if context.is_embedded else WAIT
        return [ok(NO_BOT.format(fate=fate))]
    try:
        me = call_bot_api(settings, "getMe", context.limits.query_seconds)
        hook = call_bot_api(settings, "getWebhookInfo", context.limits.query_seconds)
    except MissingExtra as error:
        return [warn("could not be checked", str(error))]
    except Unavailable as error:
        return [warn(str(error), "check the network, or TELEGRAM_API_URL")]
    except ValueError as error:
        return [
            bad(f"the Bot API rejects the token: {error}", "set TELEGRAM_BOT_TOKEN to the token that BotFather shows")
        ]
    address = settings.telegram_webhook_url
    delivery = f"its updates are posted to {address}" if address else "its updates are polled"
    return note_webhook(settings, hook) or [ok(f"@{me.get('username')} responds; {delivery}")]


def note_webhook(settings: Settings, hook: dict[str, Any]) -> list[Note]:
    """Note problems with the delivery of updates."""
    notes: list[Note] = []
    wanted, found = settings.telegram_webhook_url or "", str(hook.get("url") or "")
    if wanted != found:
        fix = "start duly serve, which sets the webhook" if wanted else "start duly bot, which removes the webhook"
        notes.append(warn(f"Telegram posts updates to {found or 'no webhook'}, not to {wanted or 'no webhook'}", fix))
    waiting = int(hook.get("pending_update_count") or 0)
    if waiting > MANY_UPDATES:
        notes.append(warn(f"{waiting} updates wait", "start the bot: duly up, duly bot or duly serve"))
    if reason := hook.get("last_error_message"):
        notes.append(
            warn(f"the last update could not be posted: {reason}", "see TELEGRAM_WEBHOOK_URL and the API's log")
        )
    return notes


def call_bot_api(settings: Settings, method: str, seconds: float) -> dict[str, Any]:
    """Call a method of the Bot API; raises ValueError with its description, or Unavailable if it does not respond."""
    require("apps")
    import httpx2

    token = settings.telegram_token
    assert token, "only called with a token"
    address = f"{settings.telegram_api_url.rstrip('/')}/bot{token.get_secret_value()}/{method}"
    no_response = f"no response from the Bot API at {settings.telegram_api_url}: "
    try:
        response = httpx2.get(address, timeout=seconds, trust_env=False)
    except httpx2.HTTPError as error:
        raise Unavailable(no_response + type(error).__name__) from None
    if response.is_server_error:
        raise Unavailable(f"{no_response}HTTP {response.status_code}")
    try:
        result = response.json()
        if result["ok"]:
            return dict(result["result"])
        reason = str(result["description"])[:100]
    except (ValueError, KeyError, TypeError):
        reason = "with an unreadable body"
    raise ValueError(f"HTTP {response.status_code}, {reason}")
