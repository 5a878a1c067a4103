"""Real servers on this machine that take what apprise sends: HTTP of any shape, and mail."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller

__all__ = ["Mailbox", "mailbox"]


class Mailbox:
    """Mails that came, and the answer that the next ones get."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.answer = "250 OK"
        self.port = 0
        self.gate = threading.Event()
        self.gate.set()

    async def handle_DATA(self, server: object, session: object, envelope: Any) -> str:  # noqa: N802
        """A mail came; called by the server."""
        mail = message_from_bytes(envelope.content, policy=default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return self.answer

    def text(self) -> str:
        """The words of the last one."""
        body = self.mails[-1].get_body(("plain", "html"))
        assert isinstance(body, EmailMessage)
        return body.get_content()


@contextmanager
def mailbox() -> Generator[Mailbox, None, None]:
    """A server of mail on a free port."""
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=0, decode_data=False)
    controller.start()
    try:
        assert controller.server
        box.port = controller.server.sockets[0].getsockname()[1]
        yield box
    finally:
        controller.stop()
