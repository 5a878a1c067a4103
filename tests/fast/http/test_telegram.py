"""The bot on the command line: links for people, the checks of doctor, and `duly bot`."""

from duly.cli.up import is_bot_polling
from duly.doctor import CheckContext, Finding, Verdict, load_checks, open_connection
from duly.settings import Settings
from tests.support.bot_api import TOKEN, FakeTelegram

HOOK = "https://duly.example.com/telegram/hook"
SECRET = TOKEN.partition(":")[2]


def look(database: str, **variables: object) -> Finding:
    """Return the findings of doctor about the bot."""
    with open_connection(database) as connection:
        given = {"DATABASE_URL": database, **variables}
        found = load_checks()["telegram"](CheckContext(connection, Settings(**given)))  # type: ignore[arg-type]
    assert SECRET not in f"{found}"
    return found


def test_doctor_says_where_messages_go_without_a_bot_and_who_it_is_with_one(
    database: str, telegram: FakeTelegram
) -> None:
    assert "messages for Telegram wait, and fail after 7 days" in look(database).found
    assert "are printed on the console" in look(database, DULY_TELEGRAM_ON_CONSOLE="true").found
    found = look(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.found) == (Verdict.OK, "@duly_test_bot responds; its updates are polled")


def test_doctor_finds_a_wrong_token_a_silent_api_and_another_webhook(database: str, telegram: FakeTelegram) -> None:
    wrong = TOKEN.replace("123456", "654321")
    assert look(database, TELEGRAM_BOT_TOKEN=wrong, TELEGRAM_API_URL=telegram.url).verdict is Verdict.BAD
    assert look(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL="http://127.0.0.1:9").verdict is Verdict.WARN
    telegram.webhook = {"url": "https://elsewhere.example.com"}
    found = look(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.fix) == (Verdict.WARN, "start duly bot, which removes the webhook")


def test_doctor_does_not_blame_the_token_when_the_api_is_not_well(database: str, telegram: FakeTelegram) -> None:
    telegram.plan_errors(502, "Bad Gateway", "getMe")
    found = look(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.found) == (Verdict.WARN, f"no response from the Bot API at {telegram.url}: HTTP 502")


def test_up_runs_a_bot_that_has_a_token_and_no_webhook() -> None:
    bot = {"TELEGRAM_BOT_TOKEN": TOKEN}
    hooked = bot | {"TELEGRAM_WEBHOOK_URL": HOOK, "TELEGRAM_WEBHOOK_SECRET": "x"}
    assert [is_bot_polling(Settings(**given)) for given in ({}, bot, hooked)] == [False, True, False]  # type: ignore[arg-type]
