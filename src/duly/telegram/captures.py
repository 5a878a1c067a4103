"""Screenshots that people send: into an open session, or each into one of its own.

Telegram makes small letters unreadable when it compresses, so photographs are taken as files only. A file is read as
far as it may be long, and not at all when its first bytes are of no picture that we take.
"""

from uuid import NAMESPACE_URL, UUID, uuid3, uuid5

from aiogram import F, Router
from aiogram.exceptions import TelegramBadRequest
from aiogram.filters import Command
from aiogram.types import Document, Message
from aiohttp import ClientError, ClientResponseError

from duly.accounts import User
from duly.apps.ingest import bringing
from duly.apps.ingest.service import MAX_IMAGES
from duly.crashpoint import crashpoint
from duly.errors import InvalidArgument, Misconfigured, TooLarge, Unavailable
from duly.executors.images import clean
from duly.outcomes import Created
from duly.storage.photo import MAX_PHOTO_BYTES, Screenshot, clean_screenshot
from duly.telegram.messages import counted, say
from duly.telegram.services import Desk

__all__ = ["OutOfReach", "router"]

MEGABYTES = MAX_PHOTO_BYTES // 1024**2
MAX_DOWNLOAD_BYTES = min(MAX_PHOTO_BYTES, 20 * 1000**2)  # the Bot API gives no larger file
BEGINNINGS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")
CHUNK_BYTES = 65_536


class Foreign(Exception):
    """It is no picture that we take."""


class Gone(Exception):
    """Telegram does not have it any more."""


class OutOfReach(Exception):
    """Telegram's files, the store or the machine did not do their part this time."""


async def start_session(message: Message, desk: Desk, person: User) -> None:
    """Begin a session; who has an open one goes on with it."""
    begun = await bringing.begin(desk.pool, desk.schema, telegram_id_of(person), session_of(desk, message))
    crashpoint("after_work")
    if isinstance(begun, Created):
        text = say(person.language, "begun")
    elif begun.row.is_open:
        text = say(person.language, "going on", images=counted(person.language, begun.row.images))
    else:
        text = say(person.language, "was closed")
    await desk.tell(message.chat.id, text)


async def done(message: Message, desk: Desk, person: User) -> None:
    """Close the open session, if anything is in it."""
    found = await bringing.finish(desk.pool, desk.schema, telegram_id_of(person), message.message_id)
    crashpoint("after_work")
    if found is None:
        text = say(person.language, "nothing to close")
    elif not found.images:
        text = say(person.language, "empty session")
    else:
        name = "not yet done" if found.is_open else "done"
        text = say(person.language, name, images=counted(person.language, found.images))
    await desk.tell(message.chat.id, text)


async def refuse_compressed(message: Message, desk: Desk, person: User) -> None:
    """A photograph that Telegram has compressed is of no use."""
    await desk.tell(message.chat.id, say(person.language, "compressed"))


async def take_document(message: Message, desk: Desk, person: User) -> None:
    """A file: taken once, if it is a picture."""
    assert message.document, "the filter says so"
    try:
        taken = await take_once(message, message.document, desk, person)
    except Foreign:
        text = say(person.language, "foreign", megabytes=MEGABYTES)
    except TooLarge:
        text = say(person.language, "too large", megabytes=MEGABYTES)
    except Gone:
        text = say(person.language, "gone")
    except bringing.SessionFull:
        text = say(person.language, "too many", images=counted(person.language, MAX_IMAGES))
    else:
        crashpoint("after_work")
        name = "taken in" if taken.is_open else "taken alone"
        text = say(person.language, name, nth=taken.image.sequence)
    await desk.tell(message.chat.id, text)


async def refuse_foreign(message: Message, desk: Desk, person: User) -> None:
    """Voices, videos, stickers: nothing to read."""
    await desk.tell(message.chat.id, say(person.language, "foreign", megabytes=MEGABYTES))


async def not_understood(message: Message, desk: Desk, person: User) -> None:
    """Words that are no command."""
    await desk.tell(message.chat.id, say(person.language, "unknown"))


# Within ---------------------------------------------------------------------------------------------------------------


async def take_once(message: Message, document: Document, desk: Desk, person: User) -> bringing.Taken:
    """Fetch, clean and keep a picture, unless this message brought it before."""
    user_id = telegram_id_of(person)
    name = f"screenshots/{user_id}/telegram/{desk.bot.id}-{message.message_id}"
    if found := await bringing.find_taken(desk.pool, desk.schema, user_id, name, message.message_id):
        return found
    clean = await cleaned(desk, await fetch(desk, document))
    photograph = bringing.Photograph(name, message.message_id, clean.data, clean.kind)
    try:
        await bringing.keep(desk.objects, photograph)
    except (Unavailable, Misconfigured) as error:
        raise OutOfReach(str(error)) from None
    taken = await bringing.bring(
        desk.pool,
        desk.schema,
        desk.objects,
        user_id,
        photograph,
        session_of(desk, message),
        stays_open=message.media_group_id is not None,
    )
    return taken.row


async def cleaned(desk: Desk, data: bytes) -> Screenshot:
    """The picture, written anew; Foreign when it is none that can be read."""
    try:
        return await clean(desk.children, clean_screenshot, data)
    except InvalidArgument:
        raise Foreign from None
    except Unavailable as error:
        raise OutOfReach(str(error)) from None


async def fetch(desk: Desk, document: Document) -> bytes:
    """The bytes of a file, as far as we take them."""
    if (document.file_size or 0) > MAX_DOWNLOAD_BYTES:
        raise too_large()
    try:
        file = await desk.bot.get_file(document.file_id)
    except TelegramBadRequest as error:
        raise (too_large() if "too big" in str(error) else Gone()) from None
    session = desk.bot.session
    address = session.api.file_url(desk.bot.token, file.file_path or "")
    data = bytearray()
    try:
        async for chunk in session.stream_content(address, timeout=int(session.timeout) + 1, chunk_size=CHUNK_BYTES):
            data += chunk
            if len(data) >= len(BEGINNINGS[0]) and not data.startswith(BEGINNINGS):
                raise Foreign
            if len(data) > MAX_DOWNLOAD_BYTES:
                raise too_large()
    except ClientResponseError as error:  # its words have the address, and so the token
        if error.status == 404:
            raise Gone from None
        raise OutOfReach(f"HTTP {error.status}") from None
    except (ClientError, TimeoutError) as error:
        raise OutOfReach(type(error).__name__) from None
    return bytes(data)


def too_large() -> TooLarge:
    """The refusal of a file that is too large."""
    return TooLarge(f"the file has more than {MEGABYTES} MB")


def session_of(desk: Desk, message: Message) -> UUID:
    """The session that a message begins; pictures that were sent together share one, which takes no others."""
    address = f"https://t.me/{desk.bot.id}/{message.chat.id}"
    if message.media_group_id:
        return uuid3(NAMESPACE_URL, f"{address}/group-{message.media_group_id}")
    return uuid5(NAMESPACE_URL, f"{address}/{message.message_id}")


def telegram_id_of(person: User) -> int:
    """The number under which a person's days are kept."""
    assert person.telegram_id is not None, "they write from there"
    return person.telegram_id


def router() -> Router:
    """Who takes pictures, and whatever nobody else takes."""
    router = Router(name="captures")
    router.message.register(start_session, Command("start_session"))
    router.message.register(done, Command("done", "close"))
    router.message.register(refuse_compressed, F.photo)
    router.message.register(take_document, F.document)
    router.message.register(refuse_foreign, ~F.text)
    router.message.register(not_understood)
    return router
