"""A local SMTP server; other Apprise services are received by the webhook receiver."""

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP


class Mailbox:
    """The received mails, and the response to the next ones."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 OK"
        self.port = 0

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:  # noqa: N802
        """Record a mail; called by the server."""
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return self.answer

    def text(self) -> str:
        """Return the text of the last mail."""
        body = self.mails[-1].get_body(("plain", "html"))
        assert isinstance(body, EmailMessage)
        return body.get_content()


@contextmanager
def mailbox() -> Generator[Mailbox, None, None]:
    """Run an SMTP server on a free port, in its own thread."""
    box, loop = Mailbox(), asyncio.new_event_loop()
    listener = socket.create_server(("127.0.0.1", 0))
    box.port = listener.getsockname()[1]
    server = loop.run_until_complete(loop.create_server(lambda: SMTP(box, loop=loop), sock=listener))
    thread = threading.Thread(target=loop.run_forever, name="mail", daemon=True)
    thread.start()
    try:
        yield box
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
