"""The bot: is there one, does Telegram know it, and do its updates come the way the settings say?"""

from collections.abc import Sequence
from typing import Any

import httpx2

from duly.doctor.case import Case
from duly.doctor.finding import Note, bad, ok, warn
from duly.settings import Settings

__all__ = ["ask_bot_api", "check_telegram"]

NO_BOT = "there is no bot: what is meant for Telegram {goes}; set TELEGRAM_BOT_TOKEN to have one"
WAITS = "waits, and fails after 7 days"
ON_CONSOLE = "appears on the console"
BY_UP = "appears on the console of `duly up`; for any other worker it waits, and fails after 7 days"
MANY_UPDATES = 100


def check_telegram(case: Case) -> Sequence[Note]:
    """Ask the Bot API who the bot is and where its updates go; nothing of the answer shows the token."""
    settings = case.settings
    if settings.telegram_token is None:
        goes = ON_CONSOLE if settings.telegram_on_console else BY_UP if case.is_embedded else WAITS
        return [ok(NO_BOT.format(goes=goes))]
    try:
        me = ask_bot_api(settings, "getMe", case.limits.question_seconds)
        hook = ask_bot_api(settings, "getWebhookInfo", case.limits.question_seconds)
    except httpx2.HTTPError as error:
        has_status = isinstance(error, httpx2.HTTPStatusError)
        how = f"HTTP {error.response.status_code}" if has_status else type(error).__name__
        found = f"no answer from the Bot API at {settings.telegram_api_url}: {how}"
        return [warn(found, "see the way there, or TELEGRAM_API_URL")]
    except ValueError as error:
        return [bad(f"the Bot API refuses us: {error}", "set TELEGRAM_BOT_TOKEN to the token that BotFather shows")]
    address = settings.telegram_webhook_url
    way = f"its updates are posted to {address}" if address else "its updates are asked for"
    return notes_of(settings, hook) or [ok(f"@{me.get('username')} answers; {way}")]


def notes_of(settings: Settings, hook: dict[str, Any]) -> list[Note]:
    """What is not well with the way that updates take."""
    notes: list[Note] = []
    wanted, found = settings.telegram_webhook_url or "", str(hook.get("url") or "")
    if wanted != found:
        fix = "start duly serve, which tells Telegram" if wanted else "start duly bot, which takes the webhook away"
        notes.append(warn(f"Telegram posts updates to {found or 'nobody'}, not to {wanted or 'nobody'}", fix))
    waiting = int(hook.get("pending_update_count") or 0)
    if waiting > MANY_UPDATES:
        notes.append(warn(f"{waiting} updates wait", "start the bot: duly up, duly bot or duly serve"))
    if why := hook.get("last_error_message"):
        notes.append(warn(f"the last update could not be posted: {why}", "see TELEGRAM_WEBHOOK_URL and the API's log"))
    return notes


def ask_bot_api(settings: Settings, method: str, seconds: float) -> dict[str, Any]:
    """One question to the Bot API; ValueError with its words when it refuses, HTTPError when it is not well."""
    token = settings.telegram_token
    assert token, "who asks has one"
    address = f"{settings.telegram_api_url.rstrip('/')}/bot{token.get_secret_value()}/{method}"
    answer = httpx2.get(address, timeout=seconds, trust_env=False)
    if answer.is_server_error:
        answer.raise_for_status()
    try:
        told = answer.json()
        if told["ok"]:
            return dict(told["result"])
        why = str(told["description"])[:100]
    except (ValueError, KeyError, TypeError):
        why = "and nothing that can be read"
    raise ValueError(f"HTTP {answer.status_code}, {why}")
