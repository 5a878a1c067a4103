"""Webhooks: a message is posted to the user's own URL, with a signature that proves its origin.

The signature follows standardwebhooks.com: `webhook-id` is the message id, the same at every attempt, so that receivers
can deduplicate. Only public addresses are allowed, unless DULY_WEBHOOK_ALLOW_PRIVATE is set; redirects are not
followed; the size of a response and the time to wait for it are limited.
"""

import asyncio
import json
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2
from standardwebhooks import Webhook as Signer

from duly.outbox.channel import NotSent, OutboundMessage, UncertainPolicy, Undeliverable
from duly.outbox.channels.webhook.addresses import PublicAddresses

MAX_RESPONSE_BYTES = 65_536
RETRYABLE_STATUSES = frozenset({408, 409, 421, 425, 429, *range(500, 600)})
MAX_RETRY_SECONDS = 86_400.0
NO_KEEPALIVE = httpx2.Limits(max_connections=100, max_keepalive_connections=0)


class WebhookChannel:
    """Posts signed messages to the webhook URLs of users."""

    name = "webhook"
    uncertain_policy = UncertainPolicy.RESEND

    def __init__(self, *, seconds: float = 10.0, allow_private: bool = False) -> None:
        self.seconds = seconds
        self.allow_private = allow_private
        self.client: httpx2.AsyncClient | None = None

    async def send(self, message: OutboundMessage) -> str | None:
        """Post a message to the webhook URL of its recipient; return the HTTP status."""
        contact = message.contact
        if contact is None or not contact.webhook_url or not contact.webhook_secret:
            raise Undeliverable(
                f"{message.recipient} has no webhook URL; set one with: "
                f"duly people set {message.recipient} --webhook https://..."
            )
        now = datetime.now(UTC)
        body = json.dumps({"type": message.kind, "timestamp": message.created_at, "data": dict(message.payload)})
        headers = {
            "content-type": "application/json",
            "user-agent": "duly",
            "webhook-id": message.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(contact.webhook_secret).sign(message.id, now, body),
        }
        try:
            client = self.get_client()
            request = client.build_request("POST", contact.webhook_url, content=body, headers=headers)
            async with asyncio.timeout(self.seconds):  # for the full response, also one that arrives byte by byte
                response = await client.send(request, stream=True)
                try:
                    await read_bounded(response)
                    return self.receipt_from(response)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise NotSent(f"Timeout: no complete response within {self.seconds:g} s") from None
        except httpx2.HTTPError as error:
            raise NotSent(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from None
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise Undeliverable(f"the webhook URL is invalid: {error}") from None

    def receipt_from(self, response: httpx2.Response) -> str:
        """Return the receipt of a successful response; raises NotSent or Undeliverable for any other."""
        status = response.status_code
        if 200 <= status < 300:
            return f"HTTP {status}"
        if status in RETRYABLE_STATUSES:
            raise NotSent(f"HTTP {status}", retry_after=parse_retry_after(response.headers.get("retry-after")))
        if 300 <= status < 400:
            raise Undeliverable(f"HTTP {status}: redirects are not followed; set the webhook to the final URL")
        raise Undeliverable(f"HTTP {status}")

    def get_client(self) -> httpx2.AsyncClient:
        """Return the HTTP client, created on the event loop that sends."""
        if self.client is None:
            inner = httpx2.AsyncHTTPTransport(trust_env=False, limits=NO_KEEPALIVE)
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


async def read_bounded(response: httpx2.Response) -> None:
    """Read a response up to MAX_RESPONSE_BYTES and ignore the rest."""
    read = 0
    async for chunk in response.aiter_raw():
        read += len(chunk)
        if read > MAX_RESPONSE_BYTES:
            return


def parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header, in seconds or as a date; None when absent or invalid."""
    if header is None:
        return None
    try:
        seconds = float(header) if header.strip().isdigit() else seconds_until(parsedate_to_datetime(header))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), MAX_RETRY_SECONDS)


def seconds_until(at: datetime) -> float:
    """Return the seconds from now until a time."""
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
