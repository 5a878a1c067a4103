"""Webhooks: a message is posted to the person's own address, signed so that they can tell it is ours.

The signature is that of standardwebhooks.com: `webhook-id` is the message's id, the same at every try; whoever gets it
twice can tell. Addresses are the public ones only, unless the settings say otherwise; redirects are not followed; an
answer is read only so far, and waited for only so long.
"""

import asyncio
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from standardwebhooks import Webhook as Signer

from duly.outbox.channel import Message, NotSent, WhenUncertain, WillNeverWork
from duly.outbox.channels.webhook.addresses import PublicAddresses

__all__ = ["Webhook"]

MAX_ANSWER_BYTES = 65_536
TRY_AGAIN = frozenset({408, 409, 421, 425, 429, *range(500, 600)})
MAX_RETRY_SECONDS = 86_400.0
A_CONNECTION_EACH = httpx2.Limits(max_connections=100, max_keepalive_connections=0)


class Webhook:
    """Posts messages to people's own addresses."""

    name = "webhook"
    when_uncertain = WhenUncertain.RESEND

    def __init__(self, *, seconds: float = 10.0, allow_private: bool = False) -> None:
        self.seconds = seconds
        self.allow_private = allow_private
        self.client: httpx2.AsyncClient | None = None

    async def send(self, message: Message) -> str | None:
        """Post it to the address of whoever it is for."""
        person = message.person
        if person is None or not person.webhook_url or not person.webhook_secret:
            raise WillNeverWork(
                f"{message.recipient} has no webhook; give them one with: "
                f"duly users set {message.recipient} --webhook https://..."
            )
        now = datetime.now(UTC)
        body = json.dumps({"type": message.kind, "timestamp": message.created_at, "data": dict(message.payload)})
        headers = {
            "content-type": "application/json",
            "user-agent": "duly",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(person.webhook_secret).sign(message.id, now, body),
        }
        try:
            client = self.opened()
            request = client.build_request("POST", person.webhook_url, content=body, headers=headers)
            async with asyncio.timeout(self.seconds):  # for all of it: an answer that drips is none
                answer = await client.send(request, stream=True)
                try:
                    await read_some(answer)
                    return self.receipt_of(answer)
                finally:
                    await answer.aclose()
        except TimeoutError:
            raise NotSent(f"Timeout: no whole answer within {self.seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise NotSent(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise WillNeverWork(f"the webhook's address cannot be read: {error}") from None

    def receipt_of(self, answer: httpx2.Response) -> str:
        """What the other side said, if it took the message."""
        status = answer.status_code
        if 200 <= status < 300:
            return f"HTTP {status}"
        if status in TRY_AGAIN:
            raise NotSent(f"HTTP {status}", retry_after=retry_after_of(answer.headers.get("retry-after")))
        if 300 <= status < 400:
            raise WillNeverWork(f"HTTP {status}: redirects are not followed; name the address it leads to")
        raise WillNeverWork(f"HTTP {status}")

    def opened(self) -> httpx2.AsyncClient:
        """The client, on the loop that sends."""
        if self.client is None:
            inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=A_CONNECTION_EACH)
            self.client = httpx2.AsyncClient(
                transport=PublicAddresses(inner, allow_private=self.allow_private),
                timeout=self.seconds,
                follow_redirects=False,
                trust_env=False,
            )
        return self.client

    async def close(self) -> None:
        """Close connections."""
        if self.client is not None:
            await self.client.aclose()
            self.client = None


async def read_some(answer: httpx2.Response) -> None:
    """Read an answer so far and no farther."""
    read = 0
    async for piece in answer.aiter_raw():
        read += len(piece)
        if read > MAX_ANSWER_BYTES:
            return


def retry_after_of(header: str | None) -> float | None:
    """How long the other side wants us to wait: seconds, or a date."""
    if header is None:
        return None
    try:
        seconds = float(header) if header.strip().isdigit() else seconds_until(parsedate_to_datetime(header))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_SECONDS)


def seconds_until(at: datetime) -> float:
    """From now until then."""
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
