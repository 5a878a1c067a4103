"""The bot on the command line: links for people, the checks of doctor, and `duly bot`."""

import json
import subprocess
from datetime import UTC, datetime

from duly.accounts.telegram_link import parse_telegram_link
from tests.fast.http.test_telegram import HOOK, SECRET
from tests.support.bot_api import TOKEN, FakeTelegram
from tests.support.processes import PYTHON, plain_environment


def run(database: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of duly."""
    environment = plain_environment(DATABASE_URL=database, **variables)
    ran = subprocess.run([*PYTHON, "-m", "duly", *arguments], env=environment, capture_output=True, text=True)
    assert SECRET not in ran.stdout + ran.stderr
    return ran


def test_users_link_prints_a_link_with_the_address_of_the_bot(database: str, telegram: FakeTelegram) -> None:
    bot = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": telegram.url}
    made = json.loads(run(database, "people", "create", "anna", "--json").stdout)
    link = json.loads(run(database, "people", "link-telegram", "anna", "--json", **bot).stdout)
    assert link["address"] == f"https://t.me/duly_test_bot?start={link['link']}"
    assert parse_telegram_link(TOKEN, link["link"], datetime.now(UTC)) == made["id"]
    assert f"/start {link['link'][:10]}" in run(database, "people", "link-telegram", "anna", **bot).stdout


def test_users_link_requires_a_bot_an_existing_user_and_no_linked_account(database: str) -> None:
    bot = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_API_URL": "http://127.0.0.1:9"}
    run(database, "people", "create", "anna")
    assert run(database, "people", "link-telegram", "anna").returncode == 78
    assert run(database, "people", "link-telegram", "ben", **bot).returncode == 2
    assert "/start " in run(database, "people", "link-telegram", "anna", **bot).stdout  # the Bot API does not answer
    run(database, "people", "set", "anna", "--telegram-id", "42")
    refused = run(database, "people", "link-telegram", "anna", **bot)
    assert refused.returncode == 2
    assert "duly people unlink-telegram anna" in refused.stderr
    assert json.loads(run(database, "people", "unlink-telegram", "anna", "--json").stdout)["telegram_id"] is None
    assert run(database, "people", "link-telegram", "anna", **bot).returncode == 0


def test_the_bot_command_names_missing_and_conflicting_settings(database: str) -> None:
    refused = run(database, "bot")
    assert (refused.returncode, "TELEGRAM_BOT_TOKEN is not set" in refused.stderr) == (78, True)
    hooked = {"TELEGRAM_WEBHOOK_URL": HOOK, "TELEGRAM_WEBHOOK_SECRET": "x"}
    refused = run(database, "bot", TELEGRAM_BOT_TOKEN=TOKEN, **hooked)
    assert (refused.returncode, HOOK in refused.stderr) == (78, True)
    refused = run(database, "bot", TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_WEBHOOK_URL=HOOK)
    assert (refused.returncode, "TELEGRAM_WEBHOOK_SECRET" in refused.stderr) == (78, True)
    refused = run(database, "bot", TELEGRAM_BOT_TOKEN=f"bot{TOKEN}")
    assert (refused.returncode, "TELEGRAM_BOT_TOKEN=***" in refused.stderr) == (78, True)


def test_the_bot_command_exits_when_telegram_refuses_its_token(database: str, telegram: FakeTelegram) -> None:
    wrong = TOKEN.replace("123456", "654321")
    refused = run(database, "bot", TELEGRAM_BOT_TOKEN=wrong, TELEGRAM_API_URL=telegram.url)
    assert refused.returncode == 78
    assert "the Bot API refuses it" in refused.stderr
