"""Screenshots that people send: added to the open session, or to a new session each.

Photos that Telegram has compressed are rejected, because small letters become unreadable; images are accepted as files
only. A download stops at the size limit, and as soon as its first bytes are not those of a supported image.
"""

from uuid import NAMESPACE_URL, UUID, uuid3, uuid5

from aiogram import F, Router
from aiogram.exceptions import TelegramBadRequest
from aiogram.filters import Command
from aiogram.types import Document, Message
from aiohttp import ClientError, ClientResponseError

from duly.accounts import Person
from duly.apps.ingest import image_intake
from duly.apps.ingest.model import MAX_IMAGES
from duly.crashpoint import crashpoint
from duly.errors import InvalidArgument, Misconfigured, TooLarge, Unavailable
from duly.executors.images import decode_image
from duly.outcomes import Created
from duly.storage.photo import MAX_PHOTO_BYTES, Screenshot, clean_screenshot
from duly.telegram.messages import format_image_count, translate
from duly.telegram.services import Services

MEGABYTES = MAX_PHOTO_BYTES // 1024**2
MAX_DOWNLOAD_BYTES = min(MAX_PHOTO_BYTES, 20 * 1000**2)  # the limit of the Bot API for downloads
IMAGE_SIGNATURES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")
CHUNK_BYTES = 65_536


class NotAnImage(Exception):
    """The file is not a supported image."""


class FileGone(Exception):
    """Telegram no longer has the file."""


class TemporaryFailure(Exception):
    """Telegram's file server, the object store or the image decoder failed; the update is retried."""


async def start_session(message: Message, services: Services, person: Person) -> None:
    """Open a session, or continue the open one."""
    begun = await services.ingest.intake.open_session(require_telegram_id(person), session_id_for(services, message))
    crashpoint("after_work")
    if isinstance(begun, Created):
        text = translate(person.language, "session_opened")
    elif begun.row.is_open:
        text = translate(person.language, "session_open", images=format_image_count(person.language, begun.row.images))
    else:
        text = translate(person.language, "session_already_closed")
    await services.send_message(message.chat.id, text)


async def finish_session(message: Message, services: Services, person: Person) -> None:
    """Close the open session, unless it has no image."""
    found = await services.ingest.intake.close_open_session(require_telegram_id(person), message.message_id)
    crashpoint("after_work")
    if found is None:
        text = translate(person.language, "no_open_session")
    elif not found.images:
        text = translate(person.language, "session_empty")
    else:
        key = "session_still_open" if found.is_open else "session_closed"
        text = translate(person.language, key, images=format_image_count(person.language, found.images))
    await services.send_message(message.chat.id, text)


async def reject_compressed(message: Message, services: Services, person: Person) -> None:
    """Reject a photo that Telegram has compressed."""
    await services.send_message(message.chat.id, translate(person.language, "photo_compressed"))


async def handle_document(message: Message, services: Services, person: Person) -> None:
    """Add a file to a session, once, if it is an image."""
    assert message.document, "the filter of the router requires one"
    try:
        received = await receive_image_once(message, message.document, services, person)
    except NotAnImage:
        text = translate(person.language, "not_an_image", megabytes=MEGABYTES)
    except TooLarge:
        text = translate(person.language, "file_too_large", megabytes=MEGABYTES)
    except FileGone:
        text = translate(person.language, "file_gone")
    except image_intake.SessionFull:
        text = translate(person.language, "session_full", images=format_image_count(person.language, MAX_IMAGES))
    else:
        crashpoint("after_work")
        key = "image_added" if received.is_open else "image_received"
        text = translate(person.language, key, number=received.image.sequence)
    await services.send_message(message.chat.id, text)


async def reject_unsupported(message: Message, services: Services, person: Person) -> None:
    """Reject voice messages, videos and stickers."""
    await services.send_message(message.chat.id, translate(person.language, "not_an_image", megabytes=MEGABYTES))


async def reject_unknown_text(message: Message, services: Services, person: Person) -> None:
    """Reply to a text that is not a command."""
    await services.send_message(message.chat.id, translate(person.language, "unknown_command"))


# Receiving images -----------------------------------------------------------------------------------------------------


async def receive_image_once(
    message: Message, document: Document, services: Services, person: Person
) -> image_intake.ReceivedImage:
    """Download, clean and store an image, unless this message was processed before."""
    user_id = require_telegram_id(person)
    name = f"screenshots/{user_id}/telegram/{services.bot.id}-{message.message_id}"
    if found := await services.ingest.intake.find_received(user_id, name, message.message_id):
        return found
    clean = await clean_image(services, await fetch(services, document))
    image = image_intake.NewImage(name, message.message_id, clean.data, clean.suffix)
    try:
        await services.objects.put(image.r2_key, image.data)
    except (Unavailable, Misconfigured) as error:
        raise TemporaryFailure(str(error)) from None
    creation = await services.ingest.intake.add_image(
        services.objects,
        user_id,
        image,
        session_id_for(services, message),
        stays_open=message.media_group_id is not None,
    )
    return creation.row


async def clean_image(services: Services, data: bytes) -> Screenshot:
    """Re-encode an image in a child process; raises NotAnImage and TemporaryFailure."""
    try:
        return await decode_image(services.image_decoder, clean_screenshot, data)
    except InvalidArgument:
        raise NotAnImage from None
    except Unavailable as error:
        raise TemporaryFailure(str(error)) from None


async def fetch(services: Services, document: Document) -> bytes:
    """Download a file; raises TooLarge, FileGone, NotAnImage and TemporaryFailure."""
    if (document.file_size or 0) > MAX_DOWNLOAD_BYTES:
        raise too_large()
    try:
        file = await services.bot.get_file(document.file_id)
    except TelegramBadRequest as error:
        raise (too_large() if "too big" in str(error) else FileGone()) from None
    session = services.bot.session
    url = session.api.file_url(services.bot.token, file.file_path or "")
    data = bytearray()
    try:
        async for chunk in session.stream_content(url, timeout=int(session.timeout) + 1, chunk_size=CHUNK_BYTES):
            data += chunk
            if len(data) >= len(IMAGE_SIGNATURES[0]) and not data.startswith(IMAGE_SIGNATURES):
                raise NotAnImage
            if len(data) > MAX_DOWNLOAD_BYTES:
                raise too_large()
    except ClientResponseError as error:  # its text has the URL, which contains the token
        if error.status == 404:
            raise FileGone from None
        raise TemporaryFailure(f"HTTP {error.status}") from None
    except (ClientError, TimeoutError) as error:
        raise TemporaryFailure(type(error).__name__) from None
    return bytes(data)


def too_large() -> TooLarge:
    """Return the error for a file above the limit."""
    return TooLarge(f"the file is larger than {MEGABYTES} MB")


def session_id_for(services: Services, message: Message) -> UUID:
    """Return the id of the session that a message opens; images sent as one album share it."""
    url = f"https://t.me/{services.bot.id}/{message.chat.id}"
    if message.media_group_id:
        return uuid3(NAMESPACE_URL, f"{url}/group-{message.media_group_id}")
    return uuid5(NAMESPACE_URL, f"{url}/{message.message_id}")


def require_telegram_id(person: Person) -> int:
    """Return the Telegram id under which the days of a person are stored."""
    assert person.telegram_id is not None, "the person was found by it"
    return person.telegram_id


def router() -> Router:
    """Build the router of sessions and images, which also replies to everything that no other router handles."""
    router = Router(name="captures")
    router.message.register(start_session, Command("start_session"))
    router.message.register(finish_session, Command("done", "close"))
    router.message.register(reject_compressed, F.photo)
    router.message.register(handle_document, F.document)
    router.message.register(reject_unsupported, ~F.text)
    router.message.register(reject_unknown_text)
    return router
