"""A fake Bot API on this machine, as strict as the real one, with users who write, press buttons and block the bot.

    with FakeTelegram() as telegram:
        anna = telegram.person(42, language="sv")
        anna.say("/start")
        telegram.wait(lambda: anna.read())

It returns the errors of the real one, with their texts: callback data of more than 64 bytes, texts that are too long,
edits that change nothing, callbacks that are too old or answered, unknown tokens. It responds with planned 429 and 403
errors, keeps updates until their offset is confirmed, ends a poller when another one connects, and posts to a webhook
with its secret until that responds with 200. Everything runs on one event loop in a thread of its own.
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

TOKEN = "123456:AAE_0123456789abcdefghijklmnopqrstu"  # noqa: S105 (not a real one)
BOT_ID = 123456
SECONDS = 60.0
MAX_FILE_BYTES = 20_000_000
Json = dict[str, Any]
T = TypeVar("T")


class ApiError(Exception):
    """An error response of the Bot API."""

    def __init__(self, status: int, description: str, **parameters: object) -> None:
        super().__init__(description)
        self.status = status
        self.body: Json = {"ok": False, "error_code": status, "description": description}
        if parameters:
            self.body["parameters"] = parameters


class ProxyResponse(ApiError):
    """A response of a proxy in front of the Bot API: JSON, but not in its format."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(status, "")
        self.body = body


@dataclass(frozen=True)
class Call:
    """A recorded call of a method."""

    method: str
    given: Json
    status: int
    answer: Json


@dataclass
class Query:
    """A button press that waits for its answer."""

    id: str
    user: int
    answered: list[str] = field(default_factory=list[str])
    is_expired: bool = False


class FakeUser:
    """A user with the app open."""

    def __init__(self, telegram: "FakeTelegram", number: int, language: str) -> None:
        self.telegram = telegram
        self.id = number
        self.language = language

    @property
    def user(self) -> Json:
        """Return the user object of updates."""
        return {"id": self.id, "is_bot": False, "first_name": f"P{self.id}", "language_code": self.language}

    def send_text(self, text: str, **more: Any) -> Json:
        """Send a text message."""
        kind = [{"type": "bot_command", "offset": 0, "length": len(text.split()[0])}] if text.startswith("/") else None
        return self.telegram.call_on_loop(
            self.telegram.add_message, self, {"text": text, **({"entities": kind} if kind else {}), **more}
        )

    def send_file(self, data: bytes, name: str = "day.png", mime: str = "image/png", **more: Any) -> Json:
        """Send a file without compression."""
        return self.telegram.call_on_loop(self.telegram.add_file_message, self, data, name, mime, more)

    def send_photo(self) -> Json:
        """Send a photo, which the app compresses."""
        size = {"file_id": "small", "file_unique_id": "small", "width": 90, "height": 160}
        return self.telegram.call_on_loop(self.telegram.add_message, self, {"photo": [size]})

    def send_location(self) -> Json:
        """Send a location, which the bot does not support."""
        return self.telegram.call_on_loop(
            self.telegram.add_message, self, {"location": {"latitude": 57.7, "longitude": 11.9}}
        )

    def press(self, message: Json, label: str) -> Query:
        """Press a button of a message as the app shows it, which may be outdated."""
        buttons = [each for row in message["reply_markup"]["inline_keyboard"] for each in row]
        (data,) = [each["callback_data"] for each in buttons if each["text"] == label]
        return self.press_data(message["message_id"], data)

    def press_data(self, message_id: int, data: str, chat: int | None = None) -> Query:
        """Press a button with this data."""
        return self.telegram.call_on_loop(self.telegram.add_callback_query, self, message_id, data, chat or self.id)

    def texts(self) -> list[str]:
        """Return the current texts of the bot's messages, in order."""
        return [message["text"] for message in self.messages()]

    def messages(self) -> list[Json]:
        """Return the current messages of the bot in this chat."""
        with self.telegram.changed:
            return [json.loads(json.dumps(each)) for each in self.telegram.chats.get(self.id, {}).values()]

    def block(self, is_blocked: bool = True) -> None:
        """Block the bot, or unblock it."""
        self.telegram.blocked = self.telegram.blocked - {self.id} | ({self.id} if is_blocked else set())


class FakeTelegram:
    """The server and its users."""

    def __init__(self) -> None:
        self.token = TOKEN
        self.people: dict[int, FakeUser] = {}
        self.chats: dict[int, dict[int, Json]] = {}  # the messages of the bot, by their ids
        self.numbers: dict[int, itertools.count[int]] = {}  # of messages, in each chat
        self.updates: list[Json] = []  # not confirmed yet
        self.update_numbers = itertools.count(1000)
        self.queries: dict[str, Query] = {}
        self.query_numbers = itertools.count(1)
        self.files: dict[str, bytes] = {}
        self.calls: list[Call] = []
        self.blocked: frozenset[int] | set[int] = frozenset()
        self.planned_errors: list[tuple[str, ApiError]] = []  # for the next call of a method, or of any method: *
        self.chat_errors: dict[int, ApiError] = {}  # for every message to a chat, until removed
        self.hanging_methods: set[str] = set()  # methods that take effect and never respond
        self.is_file_server_down = False  # for files
        self.webhook: Json | None = None
        self.posted: list[tuple[int, int]] = []  # updates to the webhook, and the status of its response
        self.poller: asyncio.Task[Any] | None = None
        self.changed = threading.Condition(threading.RLock())
        self.loop = asyncio.new_event_loop()
        self.update_added = asyncio.Event()
        self.ready = threading.Event()
        self.ended: asyncio.Event | None = None
        self.port = 0
        self.thread = threading.Thread(target=self.run, name="telegram", daemon=True)

    # For tests --------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://127.0.0.1:{self.port}"

    def person(self, number: int = 42, language: str = "en", *, has_started: bool = True) -> FakeUser:
        """Create a user, who may have written to the bot before."""
        sender = self.people.setdefault(number, FakeUser(self, number, language))
        if has_started:
            with self.changed:
                self.chats.setdefault(number, {})
        return sender

    def plan_errors(
        self, status: int, description: str, method: str = "*", times: int = 1, **parameters: object
    ) -> None:
        """Respond to the next calls with an error."""
        self.planned_errors += [(method, ApiError(status, description, **parameters)) for _ in range(times)]

    def rate_limit(self, retry_after: int, method: str = "*", times: int = 1) -> None:
        """Respond to the next calls with 429."""
        self.plan_errors(429, f"Too Many Requests: retry after {retry_after}", method, times, retry_after=retry_after)

    def expire_button_queries(self) -> None:
        """Make all button presses so far too old to be answered."""
        for query in self.queries.values():
            query.is_expired = True

    def wait(self, condition: Callable[[], T], seconds: float = SECONDS) -> T:
        """Wait until a condition is true, and return its value."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while not (found := condition()):
                left = deadline - time.monotonic()
                assert left > 0, (
                    f"the condition stayed false; the last calls were {list(map(summarize, self.calls[-8:]))}"
                )
                self.changed.wait(min(left, 0.5))
            return found

    def called(self, method: str) -> list[Call]:
        """Return the calls of a method."""
        with self.changed:
            return [call for call in self.calls if call.method == method]

    def waiting(self) -> list[int]:
        """Return the ids of the unconfirmed updates."""
        with self.changed:
            return [update["update_id"] for update in self.updates]

    # The server -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.thread.start()
        assert self.ready.wait(SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        assert self.ended
        self.loop.call_soon_threadsafe(self.ended.set)
        self.thread.join(SECONDS)

    def run(self) -> None:
        """Run the event loop in its thread."""
        self.loop.run_until_complete(self.serve())
        self.loop.close()

    async def serve(self) -> None:
        """Serve until the end."""
        self.ended = asyncio.Event()
        app = web.Application(client_max_size=64 * 1024**2)
        app.router.add_route("*", "/bot{token}/{method}", self.answer)
        app.router.add_get("/file/bot{token}/{path:.*}", self.serve_file)
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
        for task in left:  # calls that never respond
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def call_on_loop(self, function: Callable[..., T], *given: Any) -> T:
        """Call a function on the event loop of the server."""

        async def run() -> T:
            with self.changed:
                return function(*given)

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(SECONDS)

    def notify_waiting(self) -> None:
        """Wake all tasks and threads that wait for a change."""
        self.update_added.set()
        self.update_added = asyncio.Event()
        with self.changed:
            self.changed.notify_all()

    # Actions of users -------------------------------------------------------------------------------------------------

    def next_message_id(self, chat: int) -> int:
        """Return the id of the next message in a chat."""
        return next(self.numbers.setdefault(chat, itertools.count(1)))

    def add_update(self, update: Json) -> Json:
        """Add an update for the bot."""
        made = {"update_id": next(self.update_numbers), **update}
        self.updates.append(made)
        self.notify_waiting()
        return made

    def add_message(self, sender: FakeUser, content: Json) -> Json:
        """Add a message of a user."""
        self.chats.setdefault(sender.id, {})
        message = {
            "message_id": self.next_message_id(sender.id),
            "date": int(time.time()),
            "chat": private_chat(sender.id),
            "from": sender.user,
            **content,
        }
        return self.add_update({"message": message})

    def add_file_message(self, sender: FakeUser, data: bytes, name: str, mime: str, more: Json) -> Json:
        """Add a message with a file."""
        file_id = f"file-{len(self.files) + 1}"
        self.files[file_id] = data
        document = {
            "file_id": file_id,
            "file_unique_id": file_id,
            "file_name": name,
            "mime_type": mime,
            "file_size": len(data),
        }
        return self.add_message(sender, {"document": document, **more})

    def add_callback_query(self, sender: FakeUser, message_id: int, data: str, chat: int) -> Query:
        """Add a button press."""
        query = Query(f"q{next(self.query_numbers)}", sender.id)
        self.queries[query.id] = query
        message = self.chats.get(chat, {}).get(message_id)
        if message is None:  # the server no longer has it
            message = {"chat": private_chat(chat), "message_id": message_id, "date": 0}
        tapped = {"id": query.id, "from": sender.user, "chat_instance": "1", "data": data, "message": message}
        self.add_update({"callback_query": json.loads(json.dumps(tapped))})
        return query

    # Methods of the Bot API -------------------------------------------------------------------------------------------

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Respond to a call, and record it."""
        method = request.match_info["method"]
        given = {name: parse_value(value) for name, value in {**request.query, **await request.post()}.items()}
        try:
            self.check_token(request.match_info["token"])
            self.raise_planned_error(method)
            handler = getattr(self, f"do_{to_snake_case(method)}", None)
            if handler is None:
                raise ApiError(404, "Not Found: method not found")
            found = handler(given)
            status, body = 200, {"ok": True, "result": await found if asyncio.iscoroutine(found) else found}
        except ApiError as refusal:
            status, body = refusal.status, refusal.body
        with self.changed:
            self.calls.append(Call(method, given, status, body))
            self.changed.notify_all()
        if method in self.hanging_methods:
            await pause(SECONDS)
        return web.json_response(body, status=status)

    def check_token(self, token: str) -> None:
        """Raise an error for any token but that of the bot."""
        if not re.fullmatch(r"\d+:[\w-]+", token):
            raise ApiError(404, "Not Found")
        if token != self.token:
            raise ApiError(401, "Unauthorized")

    def raise_planned_error(self, method: str) -> None:
        """Raise the error that a test has planned for this call."""
        for index, (of, refusal) in enumerate(self.planned_errors):
            if of == method or (of == "*" and method in ("sendMessage", "editMessageText", "answerCallbackQuery")):
                del self.planned_errors[index]
                raise refusal

    def do_get_me(self, _: Json) -> Json:
        """Return the bot itself."""
        return {"id": BOT_ID, "is_bot": True, "first_name": "duly", "username": "duly_test_bot"}

    def do_set_my_commands(self, given: Json) -> bool:
        """Set the menu of commands."""
        if not all(re.fullmatch(r"[a-z0-9_]{1,32}", each["command"]) for each in given["commands"]):
            raise ApiError(400, "Bad Request: BOT_COMMAND_INVALID")
        return True

    def do_send_message(self, given: Json) -> Json:
        """Send a message of the bot."""
        chat = self.chat_for(given)
        check_text(given.get("text"))
        message: Json = {
            "message_id": self.next_message_id(chat),
            "date": int(time.time()),
            "chat": private_chat(chat),
            "from": self.do_get_me({}),
            "text": given["text"],
            **parse_markup(given),
        }
        self.chats[chat][message["message_id"]] = message
        return message

    def do_edit_message_text(self, given: Json) -> Json:
        """Replace the text of a message."""
        message = self.chats[self.chat_for(given)].get(int(given.get("message_id", 0)))
        if message is None:
            raise ApiError(400, "Bad Request: message to edit not found")
        check_text(given.get("text"))
        markup = parse_markup(given)
        if message["text"] == given["text"] and message.get("reply_markup") == markup.get("reply_markup"):
            raise ApiError(
                400,
                "Bad Request: message is not modified: specified new message content and reply markup are exactly "
                "the same as a current content and reply markup of the message",
            )
        message.pop("reply_markup", None)
        message |= {"text": given["text"], "edit_date": int(time.time()), **markup}
        return message

    def do_answer_callback_query(self, given: Json) -> bool:
        """Answer a button press."""
        query = self.queries.get(str(given.get("callback_query_id")))
        if query is None or query.is_expired or query.answered:
            raise ApiError(400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
        text = str(given.get("text", ""))
        if len(text.encode("utf-16-le")) > 400:
            raise ApiError(400, "Bad Request: MESSAGE_TOO_LONG")
        query.answered.append(text)
        return True

    def do_get_file(self, given: Json) -> Json:
        """Return the path of a file."""
        data = self.files.get(str(given.get("file_id")))
        if data is None:
            raise ApiError(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        if len(data) > MAX_FILE_BYTES:
            raise ApiError(400, "Bad Request: file is too big")
        name = given["file_id"]
        return {"file_id": name, "file_unique_id": name, "file_size": len(data), "file_path": f"documents/{name}"}

    async def serve_file(self, request: web.Request) -> web.StreamResponse:
        """Serve the content of a file."""
        data = self.files.get(request.match_info["path"].removeprefix("documents/"))
        if self.is_file_server_down:
            return web.Response(status=503)
        if request.match_info["token"] != self.token or data is None:
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
        return web.Response(body=data, content_type="application/octet-stream")

    async def do_get_updates(self, given: Json) -> list[Json]:
        """Return the updates from an offset on; those before it are confirmed and removed."""
        if self.webhook:
            raise ApiError(
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
            if self.poller is waiting:  # its client disconnected
                waiting.cancel()
                self.poller = None
                raise
            raise ApiError(
                409,
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running",
            ) from None
        finally:
            if self.poller is waiting:
                self.poller = None

    async def find_updates(self, given: Json) -> list[Json]:
        """Wait for updates from an offset on, up to the timeout."""
        offset, limit = int(given.get("offset", 0)), int(given.get("limit", 100))
        with self.changed:
            self.updates = [update for update in self.updates if update["update_id"] >= offset]
            self.changed.notify_all()
        deadline = self.loop.time() + float(given.get("timeout", 0))
        while not self.updates and self.loop.time() < deadline:
            update_added = self.update_added
            with suppress(TimeoutError):
                async with asyncio.timeout(deadline - self.loop.time()):
                    await update_added.wait()
        return self.updates[:limit]

    def do_set_webhook(self, given: Json) -> bool:
        """Set the webhook; like a self-hosted Bot API server this one accepts http, too."""
        if not re.fullmatch(r"https?://\S+", str(given.get("url", ""))):
            raise ApiError(400, "Bad Request: bad webhook: An HTTPS URL must be provided for webhook")
        if not re.fullmatch(r"[A-Za-z0-9_-]{0,256}", str(given.get("secret_token", ""))):
            raise ApiError(400, "Bad Request: secret token contains unallowed characters")
        self.webhook = given
        self.notify_waiting()
        return True

    def do_delete_webhook(self, given: Json) -> bool:
        """Remove the webhook."""
        self.webhook = None
        if given.get("drop_pending_updates") == "true":
            self.updates.clear()
        return True

    def do_get_webhook_info(self, _: Json) -> Json:
        """Return the state of the webhook."""
        return {
            "url": (self.webhook or {}).get("url", ""),
            "has_custom_certificate": False,
            "pending_update_count": len(self.updates),
        }

    async def post_updates(self) -> None:
        """Post updates in order, each until the response is 200."""
        async with ClientSession(timeout=ClientTimeout(total=SECONDS)) as client:
            while True:
                update_added = self.update_added
                if self.webhook is None or not self.updates:
                    await update_added.wait()
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
        """Return the chat of a call; raises an error if the bot may not write there."""
        chat = int(given.get("chat_id", 0))
        if chat in self.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        if chat in self.chat_errors:
            raise self.chat_errors[chat]
        if chat not in self.chats:
            if chat in self.people:
                raise ApiError(403, "Forbidden: bot can't initiate conversation with a user")
            raise ApiError(400, "Bad Request: chat not found")
        return chat


async def pause(seconds: float) -> None:
    """Wait."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


def to_snake_case(method: str) -> str:
    """Convert the name of a method."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", method).lower()


def summarize(call: Call) -> tuple[str, int, str]:
    """Summarize a call."""
    return call.method, call.status, str(call.answer)[:120]


def private_chat(number: int) -> Json:
    """Return the chat object of a private chat."""
    return {"id": number, "type": "private", "first_name": f"P{number}"}


def parse_value(value: Any) -> Any:
    """Parse a field of a form: JSON if it is an object or a list."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return value


def check_text(text: object) -> None:
    """Raise an error for an empty or too long text."""
    if not isinstance(text, str) or not text.strip():
        raise ApiError(400, "Bad Request: message text is empty")
    if len(text.encode("utf-16-le")) > 8192:
        raise ApiError(400, "Bad Request: message is too long")


def parse_markup(given: Mapping[str, Any]) -> Json:
    """Parse the buttons; raises an error unless each has 1 to 64 bytes of data."""
    markup = given.get("reply_markup")
    if not markup:
        return {}
    for row in markup["inline_keyboard"]:
        for button in row:
            if not button.get("text"):
                raise ApiError(400, "Bad Request: can't parse inline keyboard button: text buttons are empty")
            if not 1 <= len(button.get("callback_data", "").encode()) <= 64:
                raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
    return {"reply_markup": markup}
