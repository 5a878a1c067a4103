"""Where a webhook may go: to public addresses, checked when the connection is made and not before.

A name is looked up once, every address it has must be public, and the connection goes to one of these very addresses:
a name that leads elsewhere a moment later leads us nowhere. TLS is still checked against the name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import httpx2

from duly.outbox.channel import WillNeverWork

__all__ = ["PublicAddresses", "is_public"]

LookUp: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
INSIDE = tuple(  # beside those of which every Python's `is_global` knows
    ipaddress.ip_network(each)
    for each in (
        "100.64.0.0/10",  # of carriers
        "168.63.129.16/32",  # where a machine of Azure's finds what runs it
        "192.0.0.0/24",  # kept back for protocols, and where one of Oracle's finds what it is
        "::/3",  # with the next two all of IPv6 but 2000::/3, from which alone public addresses are given out
        "4000::/2",
        "8000::/1",
        "3fff::/20",  # for examples in books
    )
)
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # an IPv4 address in disguise


class PublicAddresses(httpx2.AsyncBaseTransport):
    """Connects to public addresses only.

    What it hands on names an address, no host: a pool below must keep no connection, or it would be used for every
    host that is there, whichever of them TLS was checked for.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, *, allow_private: bool = False, look_up: LookUp | None = None
    ) -> None:
        self.inner = inner
        self.allow_private = allow_private
        self.look_up = look_up or look_up_here

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Look the name up, check what it says, and go there and nowhere else."""
        url = request.url
        host = url.raw_host.decode("ascii")  # as it is written: read and encoded again, it may be another name
        if url.scheme not in ("http", "https") or not host:
            raise WillNeverWork(f"a webhook's address begins with https://, not {url.scheme}://")
        address = await self.address_of(host, url.port or (443 if url.scheme == "https" else 80))
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = url.copy_with(host=address)
        return await self.inner.handle_async_request(request)

    async def address_of(self, host: str, port: int) -> str:
        """The address to go to; a name with one address that is not public is refused whole."""
        try:
            addresses = await self.look_up(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be looked up: {error.strerror or error}") from None
        if not addresses:
            raise httpx2.ConnectError(f"{host} has no address")
        if not self.allow_private and (inside := [each for each in addresses if not is_public(each)]):
            raise WillNeverWork(
                f"{host} is at {inside[0]}, which is not a public address; "
                "DULY_WEBHOOK_ALLOW_PRIVATE=true lets webhooks go there"
            )
        return addresses[0]

    async def aclose(self) -> None:
        """Close connections."""
        await self.inner.aclose()


async def look_up_here(host: str, port: int) -> Sequence[str]:
    """The addresses that this machine knows for a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(text: str) -> bool:
    """Is this an address that anybody on the internet has?"""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        hidden = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if hidden is None and address in TRANSLATED:
            hidden = ipaddress.ip_address(int(address) & 0xFFFFFFFF)
        if hidden is not None:
            return is_public(str(hidden))
    return address.is_global and not address.is_multicast and not any(address in each for each in INSIDE)
