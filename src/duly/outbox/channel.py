"""What a channel is: a name, a way to send, and what to do when nobody can know whether a message arrived."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

__all__ = ["AnswerLink", "Channel", "Message", "NotSent", "Person", "Unknown", "WhenUncertain", "WillNeverWork"]


@dataclass(frozen=True)
class Person:
    """Whom a message is for, as far as they are known."""

    uid: str
    telegram_id: int | None = None
    zone: str = "UTC"
    language: str = "en"
    webhook_url: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    apprise_url: str | None = field(default=None, repr=False)  # which holds passwords


@dataclass(frozen=True)
class AnswerLink:
    """What stands in for a button where there are none."""

    label: str
    url: str


@dataclass(frozen=True)
class Message:
    """What is to be said. The id is the same at every try: whoever receives it twice can tell."""

    id: str
    channel: str
    recipient: str
    kind: str
    payload: Mapping[str, Any]
    created_at: str
    person: Person | None = None
    links: tuple[AnswerLink, ...] = ()

    @property
    def text(self) -> str:
        """Its words; of a message without any, that there is something of its kind."""
        return str(self.payload.get("text") or f"There is news for you: {self.kind}.")


class WhenUncertain(StrEnum):
    """What happens to a message of which nobody knows whether it arrived."""

    RESEND = "resend"  # again, under the same id: the other side can tell
    ASK = "ask"  # a person decides


class Channel(Protocol):
    """A way to reach people."""

    name: str
    when_uncertain: WhenUncertain

    async def send(self, message: Message) -> str | None:
        """Send it, and return what the other side called it; one of the errors below, or any other, when it was not.

        Any other error means that it was not sent this time.
        """
        ...

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


class NotSent(Exception):
    """It was not sent this time; the other side may have said how long to wait."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class WillNeverWork(Exception):
    """It cannot be sent, and trying again would only repeat this."""


class Unknown(Exception):
    """It went out, and whether it arrived nobody knows."""
