"""Apprise: a message goes to the service that the user's Apprise URL names, such as mail and over a hundred others.

These services have no buttons: where the API is publicly reachable, the text carries a link for each. They do not
deduplicate and rarely report why they failed: a refused message is retried, an interrupted one becomes uncertain.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from duly.errors import MissingExtra
from duly.outbox.channel import NotSent, OutboundMessage, OutcomeUnknown, UncertainPolicy, Undeliverable
from duly.outbox.channels.apprise.address import UNKNOWN_SERVICE, create_sandbox, open_service, service_name
from duly.outbox.channels.apprise.sandbox import PluginSandbox, sandboxed

MAX_CONCURRENT = 16
STATUS_PATTERN = re.compile(r"error=(\d{3})\b")
MAIL_SERVICES = ("mailto", "mailtos")  # a mail server accepts or refuses; Apprise does not pass its reply on
ALLOW_PRIVATE_HINT = "DULY_WEBHOOK_ALLOW_PRIVATE=true allows private addresses"


class AppriseChannel:
    """Sends messages by Apprise plugins, each in a thread because plugins block."""

    name = "apprise"
    uncertain_policy = UncertainPolicy.MANUAL

    def __init__(self, *, seconds: float = 10.0, allow_private: bool = False) -> None:
        self.seconds = seconds
        self.new_sandbox: Callable[[], PluginSandbox] = lambda: create_sandbox(allow_private)
        self.slots = asyncio.Semaphore(MAX_CONCURRENT)
        self.threads = ThreadPoolExecutor(MAX_CONCURRENT, thread_name_prefix="duly-apprise")

    async def send(self, message: OutboundMessage) -> str | None:
        """Send a message to the service of its recipient; return the name of the service."""
        address = message.contact.apprise_url if message.contact else None
        if not address:
            raise Undeliverable(
                f"{message.recipient} has no Apprise URL; set one with: "
                f"duly people set {message.recipient} --apprise SERVICE://..."
            )
        sandbox = self.new_sandbox()
        try:
            await asyncio.wait_for(self.slots.acquire(), self.seconds)
        except TimeoutError:
            raise NotSent(f"{MAX_CONCURRENT} messages are being sent by Apprise already") from None
        work = asyncio.get_running_loop().run_in_executor(
            self.threads, notify, sandbox, address, *title_and_body(message)
        )
        work.add_done_callback(self.release_slot)
        try:
            result = await asyncio.wait_for(asyncio.shield(work), self.seconds)
        except TimeoutError:
            sandbox.abort()
            if not sandbox.has_connected:
                raise NotSent(f"no connection within {self.seconds:g} s") from None
            raise OutcomeUnknown(f"{service_name(address)}: no response within {self.seconds:g} s") from None
        except BaseException:
            sandbox.abort()
            raise
        return receipt_from(result, sandbox, service_name(address))

    def release_slot(self, work: asyncio.Future[Any]) -> None:
        """Free the slot of a thread that has ended, also when its send timed out before."""
        self.slots.release()
        if not work.cancelled():
            work.exception()

    async def close(self) -> None:
        """Shut the threads down without waiting."""
        self.threads.shutdown(wait=False, cancel_futures=True)


def notify(sandbox: PluginSandbox, address: str, title: str, body: str) -> Any:
    """Send by one plugin in its sandbox; return None when the URL has no plugin."""
    try:
        plugin = open_service(address, sandbox)
    except MissingExtra as error:
        raise NotSent(str(error)) from None
    if plugin is None:
        return None
    from apprise import Apprise

    try:
        with sandboxed(sandbox):
            return Apprise(plugin).notify(body=body, title=title, body_format="text")  # pyright: ignore[reportUnknownMemberType]
    finally:
        sandbox.close()


def receipt_from(result: Any, sandbox: PluginSandbox, service: str) -> str:
    """Return the receipt of a successful send; raises Undeliverable, NotSent or OutcomeUnknown for any other."""
    from apprise.result import AppriseResultStatus

    if result is not None and result.status == AppriseResultStatus.SUCCESS:
        return service
    if sandbox.refusal:
        raise Undeliverable(f"{service}: {sandbox.refusal}; {ALLOW_PRIVATE_HINT}")
    if result is None or result.status == AppriseResultStatus.NOMATCH:
        raise Undeliverable(f"{service}: {UNKNOWN_SERVICE}")
    statuses = [found[1] for entry in result.logs() if (found := STATUS_PATTERN.search(entry.message))]
    if statuses:
        raise NotSent(f"{service}: not accepted, HTTP {statuses[-1]}")
    if sandbox.peer_connected and service not in MAIL_SERVICES:
        raise OutcomeUnknown(f"{service}: the connection closed before a response arrived")
    raise NotSent(f"{service}: not accepted")


def title_and_body(message: OutboundMessage) -> tuple[str, str]:
    """Split a message into its first line as title, and the rest with a link for each button as body."""
    first, _, rest = message.text.partition("\n")
    links = [f"{link.label}: {link.url}" for link in message.links]
    body = "\n\n".join(part for part in (rest.strip(), "\n".join(links)) if part)
    return (first, body) if body else ("", first)
