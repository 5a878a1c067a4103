"""The bot on the command line: links for people, the checks of doctor, and `duly bot`."""

from duly.cli.up import is_bot_polling
from duly.doctor import CheckContext, Finding, Verdict, load_checks, open_connection
from duly.settings import Settings
from tests.support.bot_api import TOKEN, FakeTelegram

HOOK = "https://duly.example.com/telegram/hook"
SECRET = TOKEN.partition(":")[2]


def check_telegram(database: str, **variables: object) -> Finding:
    """Return the findings of doctor about the bot."""
    with open_connection(database) as connection:
        given = {"DATABASE_URL": database, **variables}
        found = load_checks()["telegram"](CheckContext(connection, Settings(**given)))  # type: ignore[arg-type]
    assert SECRET not in f"{found}"
    return found


def test_doctor_reports_the_telegram_bot_or_what_happens_without_one(database: str, telegram: FakeTelegram) -> None:
    assert "messages for Telegram wait, and fail after 7 days" in check_telegram(database).found
    assert "are printed on the console" in check_telegram(database, DULY_TELEGRAM_ON_CONSOLE="true").found
    found = check_telegram(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.found) == (Verdict.OK, "@duly_test_bot responds; its updates are polled")


def test_doctor_reports_a_wrong_token_an_unreachable_api_and_a_foreign_webhook(
    database: str, telegram: FakeTelegram
) -> None:
    wrong = TOKEN.replace("123456", "654321")
    assert check_telegram(database, TELEGRAM_BOT_TOKEN=wrong, TELEGRAM_API_URL=telegram.url).verdict is Verdict.BAD
    assert (
        check_telegram(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL="http://127.0.0.1:9").verdict
        is Verdict.WARN
    )
    telegram.webhook = {"url": "https://elsewhere.example.com"}
    found = check_telegram(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.fix) == (Verdict.WARN, "start duly bot, which removes the webhook")


def test_doctor_does_not_blame_the_token_for_an_api_error(database: str, telegram: FakeTelegram) -> None:
    telegram.plan_errors(502, "Bad Gateway", "getMe")
    found = check_telegram(database, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_API_URL=telegram.url)
    assert (found.verdict, found.found) == (Verdict.WARN, f"no response from the Bot API at {telegram.url}: HTTP 502")


def test_up_polls_only_with_a_token_and_without_a_webhook() -> None:
    bot = {"TELEGRAM_BOT_TOKEN": TOKEN}
    hooked = bot | {"TELEGRAM_WEBHOOK_URL": HOOK, "TELEGRAM_WEBHOOK_SECRET": "x"}
    assert [is_bot_polling(Settings(**given)) for given in ({}, bot, hooked)] == [False, True, False]  # type: ignore[arg-type]
