"""The Bot API on this machine, as strict as the real one, with people who write, tap and block.

    with FakeTelegram() as telegram:
        anna = telegram.person(42, language="sv")
        anna.say("/start")
        telegram.wait(lambda: anna.read())

It refuses what the real one refuses, in its words: callback data of more than 64 bytes, texts that are too long, edits
that change nothing, callbacks that are too old or answered, tokens it does not know; it answers 429 and 403 when told
to, keeps updates until their offset is confirmed, ends a poller when another one comes, and posts to a webhook with its
secret until that says 200. Everything happens on one loop, in a thread of its own.
"""

import asyncio
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from aiohttp import ClientError, ClientSession, ClientTimeout, web

__all__ = ["TOKEN", "Call", "FakeTelegram", "ForeignPage", "Json", "Query", "Refusal", "Someone"]

TOKEN = "123456:AAE_0123456789abcdefghijklmnopqrstu"  # noqa: S105 (of nobody)
BOT_ID = 123456
SECONDS = 60.0
LARGEST_FILE_BYTES = 20_000_000
Json = dict[str, Any]
T = TypeVar("T")


class Refusal(Exception):
    """What the Bot API answers instead of a result."""

    def __init__(self, status: int, description: str, **parameters: object) -> None:
        super().__init__(description)
        self.status = status
        self.body: Json = {"ok": False, "error_code": status, "description": description}
        if parameters:
            self.body["parameters"] = parameters


class ForeignPage(Refusal):
    """What a proxy before the Bot API answers in its place: JSON, and none of its."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, "")
        self.body = body


@dataclass(frozen=True)
class Call:
    """A request that came."""

    method: str
    given: Json
    status: int
    answer: Json


@dataclass
class Query:
    """A tap that waits for its answer."""

    id: str
    user: int
    answered: list[str] = field(default_factory=list[str])
    is_expired: bool = False


class Someone:
    """A person with the app open."""

    def __init__(self, telegram: "FakeTelegram", number: int, language: str) -> None:
        self.telegram = telegram
        self.id = number
        self.language = language

    @property
    def user(self) -> Json:
        """As an update shows them."""
        return {"id": self.id, "is_bot": False, "first_name": f"P{self.id}", "language_code": self.language}

    def say(self, text: str, **more: Any) -> Json:
        """Write something."""
        kind = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}] if text.startswith("/") else None
        return self.telegram.on_loop(
            self.telegram.bring, self, {"text": text, **({"entities": kind} if kind else {}), **more}
        )

    def send_file(self, data: bytes, name: str = "day.png", mime: str = "image/png", **more: Any) -> Json:
        """Send a file, as it is."""
        return self.telegram.on_loop(self.telegram.bring_file, self, data, name, mime, more)

    def send_photo(self) -> Json:
        """Send a photograph, which the app compresses."""
        size = {"file_id": "small", "file_unique_id": "small", "width": 90, "height": 160}
        return self.telegram.on_loop(self.telegram.bring, self, {"photo": [size]})

    def send_place(self) -> Json:
        """Send something that is neither words nor a picture of ours."""
        return self.telegram.on_loop(self.telegram.bring, self, {"location": {"latitude": 57.7, "longitude": 11.9}})

    def press(self, message: Json, label: str) -> Query:
        """Tap a button of a message, as this app shows it, which may be late."""
        buttons = [each for row in message["reply_markup"]["inline_keyboard"] for each in row]
        (data,) = [each["callback_data"] for each in buttons if each["text"] == label]
        return self.tap(message["message_id"], data)

    def tap(self, message_id: int, data: str, chat: int | None = None) -> Query:
        """Send the data of a button."""
        return self.telegram.on_loop(self.telegram.bring_tap, self, message_id, data, chat or self.id)

    def read(self) -> list[str]:
        """What the bot's messages say now, in their order."""
        return [message["text"] for message in self.messages()]

    def messages(self) -> list[Json]:
        """The bot's messages in this chat, as they are now."""
        with self.telegram.changed:
            return [json.loads(json.dumps(each)) for each in self.telegram.chats.get(self.id, {}).values()]

    def block(self, is_blocked: bool = True) -> None:
        """Let the bot write no more."""
        self.telegram.blocked = self.telegram.blocked - {self.id} | ({self.id} if is_blocked else set())


class FakeTelegram:
    """The server, and everybody on it."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.people: dict[int, Someone] = {}
        self.chats: dict[int, dict[int, Json]] = {}  # of the bot's messages, by their numbers
        self.numbers: dict[int, itertools.count[int]] = {}  # of messages, in each chat
        self.updates: list[Json] = []  # not confirmed yet
        self.update_numbers = itertools.count(1000)
        self.queries: dict[str, Query] = {}
        self.query_numbers = itertools.count(1)
        self.files: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.blocked: frozenset[int] | set[int] = frozenset()
        self.refusals: list[tuple[str, Refusal]] = []  # for the next call of a method, or of any: *
        self.troubles: dict[int, Refusal] = {}  # for every message to a chat, until it is taken away
        self.hangs: set[str] = set()  # methods that are done, and never answered
        self.is_shut = False  # for files
        self.webhook: Json | None = None
        self.posted: list[tuple[int, int]] = []  # updates to the webhook, and what it answered
        self.poller: asyncio.Task[Any] | None = None
        self.changed = threading.Condition(threading.RLock())
        self.loop = asyncio.new_event_loop()
        self.news = asyncio.Event()
        self.ready = threading.Event()
        self.ended: asyncio.Event | None = None
        self.port = 0
        self.thread = threading.Thread(target=self.run, name="telegram", daemon=True)

    # For tests --------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def person(self, number: int = 42, language: str = "en", *, has_started: bool = True) -> Someone:
        """Somebody, who may have written to the bot before."""
        someone = self.people.setdefault(number, Someone(self, number, language))
        if has_started:
            with self.changed:
                self.chats.setdefault(number, {})
        return someone

    def refuse(self, status: int, description: str, method: str = "*", times: int = 1, **parameters: object) -> None:
        """Refuse the next calls."""
        self.refusals += [(method, Refusal(status, description, **parameters)) for _ in range(times)]

    def flood(self, retry_after: int, method: str = "*", times: int = 1) -> None:
        """Answer the next calls with 429."""
        self.refuse(429, f"Too Many Requests: retry after {retry_after}", method, times, retry_after=retry_after)

    def expire_queries(self) -> None:
        """Every tap so far is too old to be answered."""
        for query in self.queries.values():
            query.is_expired = True

    def wait(self, condition: Callable[[], T], seconds: float = SECONDS) -> T:
        """Wait until something is so."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not (found := condition()):
                left = deadline - time.monotonic()
                assert left > 0, f"it never came; the last calls were {list(map(brief, self.calls[-8:]))}"
                self.changed.wait(min(left, 0.5))
            return found

    def called(self, method: str) -> list[Call]:
        """The calls of a method."""
        with self.changed:
            return [call for call in self.calls if call.method == method]

    def waiting(self) -> list[int]:
        """The updates that nobody confirmed."""
        with self.changed:
            return [update["update_id"] for update in self.updates]

    # Life -------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.thread.start()
        assert self.ready.wait(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.ended
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(SECONDS)

    def run(self) -> None:
        """The loop, in its thread."""
        self.loop.run_until_complete(self.serve())
        self.loop.close()

    async def serve(self) -> None:
        """Serve until the end."""
        self.ended = asyncio.Event()
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/bot{token}/{method}", self.answer)
        app.router.add_get("/file/bot{token}/{path:.*}", self.give_file)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.port = runner.addresses[0][1]
        posting = asyncio.create_task(self.post_updates())
        self.ready.set()
        await self.ended.wait()
        posting.cancel()
        await runner.cleanup()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:  # somebody who still waits for an answer
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def on_loop(self, function: Callable[..., T], *given: Any) -> T:
        """Do something where everything is done."""

        async def run() -> T:
            with self.changed:
                return function(*given)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(SECONDS)

    def tell_news(self) -> None:
        """Let everybody who waits look again."""
        self.news.set()
        self.news = asyncio.Event()
        with self.changed:
            self.changed.notify_all()

    # What people do ---------------------------------------------------------------------------------------------------

    def number_in(self, chat: int) -> int:
        """The number of the next message in a chat."""
        return next(self.numbers.setdefault(chat, itertools.count(1)))

    def add_update(self, update: Json) -> Json:
        """Something happened that the bot is to know."""
        made = {"update_id": next(self.update_numbers), **update}
        self.updates.append(made)
        self.tell_news()
        return made

    def bring(self, someone: Someone, content: Json) -> Json:
        """Somebody writes to the bot."""
        self.chats.setdefault(someone.id, {})
        message = {
            "message_id": self.number_in(someone.id),
            "date": int(time.time()),
            "chat": chat_of(someone.id),
            "from": someone.user,
            **content,
        }
        return self.add_update({"message": message})

    def bring_file(self, someone: Someone, data: bytes, name: str, mime: str, more: Json) -> Json:
        """Somebody sends a file."""
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = data
        document = {
            "file_id": file_id,
            "file_unique_id": file_id,
            "file_name": name,
            "mime_type": mime,
            "file_size": len(data),
        }
        return self.bring(someone, {"document": document, **more})

    def bring_tap(self, someone: Someone, message_id: int, data: str, chat: int) -> Query:
        """Somebody taps a button."""
        query = Query(f"q{next(self.query_numbers)}", someone.id)
        self.queries[query.id] = query
        message = self.chats.get(chat, {}).get(message_id)
        if message is None:  # the server does not have it any more
            message = {"chat": chat_of(chat), "message_id": message_id, "date": 0}
        tapped = {"id": query.id, "from": someone.user, "chat_instance": "1", "data": data, "message": message}
        self.add_update({"callback_query": json.loads(json.dumps(tapped))})
        return query

    # What the bot asks ------------------------------------------------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One call, refused or answered, and remembered."""
        method = request.match_info["method"]
        given = {name: read_value(value) for name, value in {**request.query, **await request.post()}.items()}
        try:
            self.check_token(request.match_info["token"])
            self.refuse_as_told(method)
            ask = getattr(self, f"do_{snake(method)}", None)
            if ask is None:
                raise Refusal(404, "Not Found: method not found")
            found = ask(given)
            status, body = 200, {"ok": True, "result": await found if asyncio.iscoroutine(found) else found}
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
        with self.changed:
            self.calls.append(Call(method, given, status, body))
            self.changed.notify_all()
        if method in self.hangs:
            await pause(SECONDS)
        return web.json_response(body, status=status)

    def check_token(self, token: str) -> None:
        """Only our bot is known here."""
        if not re.fullmatch(r"\d+:[\w-]+", token):
            raise Refusal(404, "Not Found")
        if token != self.token:
            raise Refusal(401, "Unauthorized")

    def refuse_as_told(self, method: str) -> None:
        """What a test has in store for this call."""
        for place, (of, refusal) in enumerate(self.refusals):
            if of == method or (of == "*" and method in ("sendMessage", "editMessageText", "answerCallbackQuery")):
                del self.refusals[place]
                raise refusal

    def do_get_me(self, _: Json) -> Json:
        """Who we are."""
        return {"id": BOT_ID, "is_bot": True, "first_name": "duly", "username": "duly_test_bot"}

    def do_set_my_commands(self, given: Json) -> bool:
        """The menu of commands."""
        if not all(re.fullmatch(r"[a-z0-9_]{1,32}", each["command"]) for each in given["commands"]):
            raise Refusal(400, "Bad Request: BOT_COMMAND_INVALID")
        return True

    def do_send_message(self, given: Json) -> Json:
        """A message of the bot's."""
        chat = self.chat_for(given)
        check_text(given.get("text"))
        message: Json = {
            "message_id": self.number_in(chat),
            "date": int(time.time()),
            "chat": chat_of(chat),
            "from": self.do_get_me({}),
            "text": given["text"],
            **checked_markup(given),
        }
        self.chats[chat][message["message_id"]] = message
        return message

    def do_edit_message_text(self, given: Json) -> Json:
        """Other words in the place of a message."""
        message = self.chats[self.chat_for(given)].get(int(given.get("message_id", 0)))
        if message is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        check_text(given.get("text"))
        markup = checked_markup(given)
        if message["text"] == given["text"] and message.get("reply_markup") == markup.get("reply_markup"):
            raise Refusal(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly "
                "the same as a current content and reply markup of the message",
            )
        message.pop("reply_markup", None)
        message |= {"text": given["text"], "edit_date": int(time.time()), **markup}
        return message

    def do_answer_callback_query(self, given: Json) -> bool:
        """What is shown where somebody tapped."""
        query = self.queries.get(str(given.get("callback_query_id")))
        if query is None or query.is_expired or query.answered:
            raise Refusal(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        text = str(given.get("text", ""))
        if len(text.encode("utf-16-le")) > 400:
            raise Refusal(400, "Bad Request: MESSAGE_TOO_LONG")
        query.answered.append(text)
        return True

    def do_get_file(self, given: Json) -> Json:
        """Where a file can be had."""
        data = self.files.get(str(given.get("file_id")))
        if data is None:
            raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if len(data) > LARGEST_FILE_BYTES:
            raise Refusal(400, "Bad Request: file is too big")
        name = given["file_id"]
        return {"file_id": name, "file_unique_id": name, "file_size": len(data), "file_path": f"documents/{name}"}

    async def give_file(self, request: web.Request) -> web.StreamResponse:
        """A file."""
        data = self.files.get(request.match_info["path"].removeprefix("documents/"))
        if self.is_shut:
            return web.Response(status=503)
        if request.match_info["token"] != self.token or data is None:
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
        return web.Response(body=data, content_type="application/octet-stream")

    async def do_get_updates(self, given: Json) -> list[Json]:
        """What happened from an offset on; what came before it is confirmed, and gone."""
        if self.webhook:
            raise Refusal(
                409,
                "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the "
                "webhook first",
            )
        if self.poller:
            self.poller.cancel()
        waiting = self.poller = asyncio.ensure_future(self.find_updates(given))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if self.poller is waiting:  # it hung up itself
                waiting.cancel()
                self.poller = None
                raise
            raise Refusal(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            ) from None
        finally:
            if self.poller is waiting:
                self.poller = None

    async def find_updates(self, given: Json) -> list[Json]:
        """The updates from an offset on, waited for so long."""
        offset, limit = int(given.get("offset", 0)), int(given.get("limit", 100))
        with self.changed:
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            self.changed.notify_all()
        deadline = self.loop.time() + float(given.get("timeout", 0))
        while not self.updates and self.loop.time() < deadline:
            news = self.news
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline - self.loop.time()):
                    await news.wait()
        return self.updates[:limit]

    def do_set_webhook(self, given: Json) -> bool:
        """From now on updates are posted; this server is one of one's own, which takes http as well."""
        if not re.fullmatch(r"https?://\S+", str(given.get("url", ""))):
            raise Refusal(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", str(given.get("secret_token", ""))):
            raise Refusal(400, "Bad Request: secret token contains unallowed characters")
        self.webhook = given
        self.tell_news()
        return True

    def do_delete_webhook(self, given: Json) -> bool:
        """From now on updates are asked for."""
        self.webhook = None
        if given.get("drop_pending_updates") == "true":
            self.updates.clear()
        return True

    def do_get_webhook_info(self, _: Json) -> Json:
        """Where updates go."""
        return {
            "url": (self.webhook or {}).get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": len(self.updates),
        }

    async def post_updates(self) -> None:
        """Post updates in their order, each until it is answered with 200."""
        async with ClientSession(timeout=ClientTimeout(total=SECONDS)) as client:
            while True:
                news = self.news
                if self.webhook is None or not self.updates:
                    await news.wait()
                    continue
                update = self.updates[0]
                headers: dict[str, str] = {}
                if secret := self.webhook.get("secret_token"):
                    headers["X-Telegram-Bot-Api-Secret-Token"] = secret
                status = 0
                with suppress(ClientError):
                    async with client.post(self.webhook["url"], json=update, headers=headers) as answer:
                        status = answer.status
                with self.changed:
                    self.posted.append((update["update_id"], status))
                    if 200 <= status < 300:
                        self.updates.remove(update)
                    self.changed.notify_all()
                if not 200 <= status < 300:
                    await pause(0.1)

    def chat_for(self, given: Json) -> int:
        """The chat that a call is about, if the bot may write there."""
        chat = int(given.get("chat_id", 0))
        if chat in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")
        if chat in self.troubles:
            raise self.troubles[chat]
        if chat not in self.chats:
            if chat in self.people:
                raise Refusal(403, "Forbidden: bot can't initiate conversation with a user")
            raise Refusal(400, "Bad Request: chat not found")
        return chat


async def pause(seconds: float) -> None:
    """Take a while."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


def snake(method: str) -> str:
    """A method as ours is called."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()


def brief(call: Call) -> tuple[str, int, str]:
    """A call in a few words."""
    return call.method, call.status, str(call.answer)[:120]


def chat_of(number: int) -> Json:
    """A private chat."""
    return {"id": number, "type": "private", "first_name": f"P{number}"}


def read_value(value: Any) -> Any:
    """A field of a form: JSON where it is an object or a list."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return value


def check_text(text: object) -> None:
    """A text of a message is there, and not too long."""
    if not isinstance(text, str) or not text.strip():
        raise Refusal(400, "Bad Request: message text is empty")
    if len(text.encode("utf-16-le")) > 8192:
        raise Refusal(400, "Bad Request: message is too long")


def checked_markup(given: Mapping[str, Any]) -> Json:
    """The buttons, each with 1 to 64 bytes."""
    markup = given.get("reply_markup")
    if not markup:
        return {}
    for row in markup["inline_keyboard"]:
        for button in row:
            if not button.get("text"):
                raise Refusal(400, "Bad Request: can't parse inline keyboard button: text buttons are empty")
            if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
                raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")
    return {"reply_markup": markup}
