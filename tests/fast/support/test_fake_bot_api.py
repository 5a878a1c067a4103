"""The Bot API of the tests is as strict as the real one, so that what passes here passes there."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.support.bot_api import FakeTelegram, Json

ANNA = 42


class Caller:
    """A bot that knows nothing but HTTP."""

    def __init__(self, telegram: FakeTelegram) -> None:
        self.telegram = telegram
        self.client = httpx2.Client(base_url=telegram.url, timeout=60, trust_env=False)

    def ask(self, method: str, token: str | None = None, **given: Any) -> tuple[int, Json]:
        """The status and the body that a method is answered with."""
        answer = self.client.post(f"/bot{token or self.telegram.token}/{method}", data=given)
        return answer.status_code, answer.json()

    def do(self, method: str, **given: Any) -> Any:
        """The result of a method that is not refused."""
        status, body = self.ask(method, **given)
        assert (status, body["ok"]) == (200, True), body
        return body["result"]

    def refused(self, method: str, **given: Any) -> tuple[int, str]:
        """The status and the words with which a method is refused."""
        status, body = self.ask(method, **given)
        assert (body["ok"], body["error_code"]) == (False, status), body
        return status, body["description"]


@pytest.fixture
def caller(telegram: FakeTelegram) -> Generator[Caller, None, None]:
    """A caller, and Anna, who has written to the bot."""
    telegram.person(ANNA)
    caller = Caller(telegram)
    with caller.client:
        yield caller


def keyboard(data: str) -> str:
    """One button, as JSON that needs no escapes."""
    return f'{{"inline_keyboard": [[{{"text": "Done", "callback_data": "{data}"}}]]}}'


@pytest.mark.parametrize("data", ["x" * 64, "å" * 32, "x"])
def test_button_data_of_1_to_64_bytes_is_accepted(data: str, caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due", reply_markup=keyboard(data))
    assert sent["reply_markup"]["inline_keyboard"][0][0]["callback_data"] == data


@pytest.mark.parametrize("data", ["x" * 65, "å" * 33, ""])
def test_button_data_outside_1_to_64_bytes_is_refused_in_messages_and_edits(data: str, caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due")
    refusal = (400, "Bad Request: BUTTON_DATA_INVALID")
    assert caller.refused("sendMessage", chat_id=ANNA, text="due", reply_markup=keyboard(data)) == refusal
    edit = {"chat_id": ANNA, "message_id": sent["message_id"], "text": "other", "reply_markup": keyboard(data)}
    assert caller.refused("editMessageText", **edit) == refusal
    assert caller.telegram.people[ANNA].texts() == ["due"]


def test_edit_without_a_change_is_refused_and_removing_buttons_is_a_change(caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due", reply_markup=keyboard("key"))
    edit = {"chat_id": ANNA, "message_id": sent["message_id"], "text": "due"}
    status, description = caller.refused("editMessageText", **edit, reply_markup=keyboard("key"))
    assert (status, "message is not modified" in description) == (400, True)
    assert "reply_markup" not in caller.do("editMessageText", **edit)
    status, description = caller.refused("editMessageText", **edit)
    assert (status, "message is not modified" in description) == (400, True)
    assert caller.refused("editMessageText", **edit | {"message_id": 99}) == (
        400,
        "Bad Request: message to edit not found",
    )


def test_callback_query_is_answered_once_and_not_after_it_expired(caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due", reply_markup=keyboard("key"))
    anna = caller.telegram.people[ANNA]
    first, second = (anna.press(sent, "Done") for _ in range(2))
    assert caller.do("answerCallbackQuery", callback_query_id=first.id, text="done") is True
    caller.telegram.expire_button_queries()
    for query in (first.id, second.id, "never"):
        status, description = caller.refused("answerCallbackQuery", callback_query_id=query)
        assert (status, "query is too old" in description) == (400, True)
    assert (first.answered, second.answered) == (["done"], [])


def test_callback_answer_is_limited_to_200_characters(caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due", reply_markup=keyboard("key"))
    query = caller.telegram.people[ANNA].press(sent, "Done").id
    assert caller.refused("answerCallbackQuery", callback_query_id=query, text="x" * 201)[0] == 400
    assert caller.do("answerCallbackQuery", callback_query_id=query, text="x" * 200) is True


@pytest.mark.parametrize("text", ["", "  ", "x" * 4097, "🙂" * 2049])
def test_empty_or_overlong_text_is_refused(text: str, caller: Caller) -> None:
    assert caller.refused("sendMessage", chat_id=ANNA, text=text)[0] == 400
    assert caller.do("sendMessage", chat_id=ANNA, text="🙂" * 2048)


def test_rate_limit_returns_429_with_retry_after_once(caller: Caller) -> None:
    caller.telegram.rate_limit(7, "sendMessage")
    status, body = caller.ask("sendMessage", chat_id=ANNA, text="due")
    assert (status, body["error_code"], body["parameters"]) == (429, 429, {"retry_after": 7})
    assert body["description"] == "Too Many Requests: retry after 7"
    assert caller.do("sendMessage", chat_id=ANNA, text="due")


def test_blocked_bot_gets_403_for_messages_and_edits(caller: Caller) -> None:
    sent = caller.do("sendMessage", chat_id=ANNA, text="due")
    caller.telegram.people[ANNA].block()
    refusal = (403, "Forbidden: bot was blocked by the user")
    assert caller.refused("sendMessage", chat_id=ANNA, text="due") == refusal
    edit = {"chat_id": ANNA, "message_id": sent["message_id"], "text": "other"}
    assert caller.refused("editMessageText", **edit) == refusal
    caller.telegram.people[ANNA].block(is_blocked=False)
    assert caller.do("editMessageText", **edit)["text"] == "other"


def test_user_who_never_wrote_gives_403_and_an_unknown_chat_400(caller: Caller) -> None:
    caller.telegram.person(43, has_started=False)
    assert caller.refused("sendMessage", chat_id=43, text="due")[0] == 403
    assert caller.refused("sendMessage", chat_id=44, text="due") == (400, "Bad Request: chat not found")


def test_unknown_token_gives_401(caller: Caller) -> None:
    assert caller.ask("getMe", token="1:other")[0] == 401  # noqa: S106
    assert caller.ask("getMe", token="other")[0] == 404  # noqa: S106


def test_updates_are_kept_until_a_higher_offset_confirms_them(caller: Caller) -> None:
    first, second, third = (caller.telegram.people[ANNA].send_text(f"/{word}")["update_id"] for word in ("a", "b", "c"))

    def ids(**given: int) -> list[int]:
        return [update["update_id"] for update in caller.do("getUpdates", **given)]

    assert ids() == ids() == [first, second, third]  # asking alone confirms nothing
    assert ids(limit=1) == [first]
    assert ids(offset=second) == [second, third]
    assert ids() == [second, third]  # and what was confirmed is gone
    assert ids(offset=third + 1) == []
    assert caller.telegram.waiting() == []


def test_second_get_updates_call_ends_the_first_with_409(caller: Caller) -> None:
    with ThreadPoolExecutor() as others:
        first = others.submit(caller.ask, "getUpdates", timeout=50)
        caller.telegram.wait(lambda: caller.telegram.poller)
        second = others.submit(caller.ask, "getUpdates", timeout=50)
        status, body = first.result(60)
        assert (status, "terminated by other getUpdates request" in body["description"]) == (409, True)
        sent_update = caller.telegram.people[ANNA].send_text("/help")
        status, body = second.result(60)
    assert (status, [update["update_id"] for update in body["result"]]) == (200, [sent_update["update_id"]])


def test_get_updates_is_refused_while_a_webhook_is_set(caller: Caller) -> None:
    caller.do("setWebhook", url="https://127.0.0.1:9/hook", secret_token="a_secret")  # noqa: S106
    assert caller.refused("getUpdates")[0] == 409
    caller.do("deleteWebhook")
    assert caller.do("getUpdates") == []
    assert caller.refused("setWebhook", url="nowhere")[0] == 400
    assert caller.refused("setWebhook", url="https://a.example", secret_token="not ours!")[0] == 400  # noqa: S106


def test_file_over_20_mb_is_refused(caller: Caller) -> None:
    anna = caller.telegram.people[ANNA]
    small, large = (anna.send_file(bytes(several))["message"]["document"] for several in (20_000_000, 20_000_001))
    assert caller.do("getFile", file_id=small["file_id"])["file_path"]
    assert caller.refused("getFile", file_id=large["file_id"]) == (400, "Bad Request: file is too big")
    assert caller.refused("getFile", file_id="never")[0] == 400
