"""Apprise: a message goes to whatever service a person's own address names, mail and more than a hundred others.

These have no buttons: where the API can be reached from outside, the text carries a link for each. They do not dedupe
either, and do not say why they failed: what was refused is tried again, and of what was cut off nobody knows.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from duly.errors import MissingExtra
from duly.outbox.channel import Message, NotSent, Unknown, WhenUncertain, WillNeverWork
from duly.outbox.channels.apprise.address import leash_of, open_service, service_of
from duly.outbox.channels.apprise.sandbox import Leash, leashed

__all__ = ["AppriseChannel"]

AT_ONCE = 16
STATUS = re.compile(r"error=(\d{3})\b")
MAIL = ("mailto", "mailtos")  # whose servers take a letter or refuse it, in words that apprise keeps to itself
ALLOW = "DULY_WEBHOOK_ALLOW_PRIVATE=true lets messages go to addresses that are not public"


class AppriseChannel:
    """Sends messages to the services that people named, each in a thread, for plugins block."""

    name = "apprise"
    when_uncertain = WhenUncertain.ASK

    def __init__(self, *, seconds: float = 10.0, allow_private: bool = False) -> None:
        self.seconds = seconds
        self.new_leash: Callable[[], Leash] = lambda: leash_of(allow_private)
        self.slots = asyncio.Semaphore(AT_ONCE)
        self.threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="duly-apprise")

    async def send(self, message: Message) -> str | None:
        """Send it to the service of whoever it is for."""
        address = message.person.apprise_url if message.person else None
        if not address:
            raise WillNeverWork(
                f"{message.recipient} has no address for apprise; give them one with: "
                f"duly users set {message.recipient} --apprise SERVICE://..."
            )
        leash = self.new_leash()
        try:
            await asyncio.wait_for(self.slots.acquire(), self.seconds)
        except TimeoutError:
            raise NotSent("too many messages are being sent at once") from None
        work = asyncio.get_running_loop().run_in_executor(self.threads, notify, leash, address, *words_of(message))
        work.add_done_callback(self.free)
        try:
            result = await asyncio.wait_for(asyncio.shield(work), self.seconds)
        except TimeoutError:
            leash.cut()
            if not leash.was_out:
                raise NotSent(f"no connection within {self.seconds:g} s") from None
            raise Unknown(f"{service_of(address)}: no answer within {self.seconds:g} s") from None
        except BaseException:
            leash.cut()
            raise
        return receipt_of(result, leash, service_of(address))

    def free(self, work: asyncio.Future[Any]) -> None:
        """A thread has ended, whether or not anybody still waits for it."""
        self.slots.release()
        if not work.cancelled():
            work.exception()

    async def close(self) -> None:
        """Let threads end."""
        self.threads.shutdown(wait=False, cancel_futures=True)


def notify(leash: Leash, address: str, title: str, body: str) -> Any:
    """Send it by one plugin, on its leash; None when there is no plugin for it."""
    try:
        plugin = open_service(address, leash)
    except MissingExtra as error:
        raise NotSent(str(error)) from None
    if plugin is None:
        return None
    from apprise import Apprise

    try:
        with leashed(leash):
            return Apprise(plugin).notify(body=body, title=title, body_format="text")  # pyright: ignore[reportUnknownMemberType]
    finally:
        leash.close()


def receipt_of(result: Any, leash: Leash, service: str) -> str:
    """What became of it; a plugin says yes or no, and seldom why."""
    from apprise.result import AppriseResultStatus

    if result is not None and result.status == AppriseResultStatus.SUCCESS:
        return service
    if leash.refused:
        raise WillNeverWork(f"{service}: {leash.refused}; {ALLOW}")
    if result is None or result.status == AppriseResultStatus.NOMATCH:
        raise WillNeverWork(f"{service}: apprise does not know this service, or lacks something in the address")
    said = [found[1] for entry in result.logs() if (found := STATUS.search(entry.message))]
    if said:
        raise NotSent(f"{service}: it was not taken, HTTP {said[-1]}")
    if leash.was_heard and service not in MAIL:
        raise Unknown(f"{service}: the connection ended before an answer came")
    raise NotSent(f"{service}: it was not taken")


def words_of(message: Message) -> tuple[str, str]:
    """A title and the rest: its first line, what follows, and a link for each button."""
    first, _, rest = message.text.partition("\n")
    links = [f"{link.label}: {link.url}" for link in message.links]
    body = "\n\n".join(part for part in (rest.strip(), "\n".join(links)) if part)
    return (first, body) if body else ("", first)
