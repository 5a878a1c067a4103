"""The protocol of a channel: a name, a send method, and a policy for messages whose outcome is unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

NOT_CONFIGURED = "CHANNEL_NOT_CONFIGURED"  # begins the last_error of a message that waits for a setting
UNCONFIGURED_WAIT_DAYS = 7  # then it fails


@dataclass(frozen=True)
class Contact:
    """How a recipient can be reached, as far as known."""

    uid: str
    telegram_id: int | None = None
    zone: str = "UTC"
    language: str = "en"
    webhook_url: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    apprise_url: str | None = field(default=None, repr=False)  # holds passwords


@dataclass(frozen=True)
class AnswerLink:
    """A link that replaces a button in channels without buttons."""

    label: str
    url: str


@dataclass(frozen=True)
class OutboundMessage:
    """A message to send; the id is the same at every attempt, so that receivers can deduplicate."""

    id: str
    channel: str
    recipient: str
    kind: str
    payload: Mapping[str, Any]
    created_at: str
    contact: Contact | None = None
    links: tuple[AnswerLink, ...] = ()

    @property
    def text(self) -> str:
        """The text of the payload, or a generic sentence that names the kind."""
        return str(self.payload.get("text") or f"There is news for you: {self.kind}.")


class UncertainPolicy(StrEnum):
    """What happens to a message whose outcome is unknown."""

    RESEND = "resend"  # under the same id: the receiver deduplicates
    MANUAL = "manual"  # an operator resends or resolves it


class Channel(Protocol):
    """A transport for messages."""

    name: str
    uncertain_policy: UncertainPolicy

    async def send(self, message: OutboundMessage) -> str | None:
        """Send a message and return its receipt, if the transport gives one.

        Raises NotSent, Undeliverable or OutcomeUnknown; any other exception is treated as NotSent.
        """
        ...

    async def close(self) -> None:
        """Close connections and threads."""
        ...


class NotSent(Exception):
    """The message was not sent and is retried, after `retry_after` seconds if the transport asked for it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Undeliverable(Exception):
    """The message can never be sent; a retry would fail in the same way."""


class OutcomeUnknown(Exception):
    """The message was handed to the transport and it is unknown whether it arrived."""
