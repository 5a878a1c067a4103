"""Protection against server-side request forgery: webhooks connect to public addresses only.

A host name is resolved once, all its addresses must be public, and the connection goes to one of these addresses, so
that DNS rebinding has no effect. TLS is still verified against the name.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import httpx2

from duly.outbox.channel import Undeliverable

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
NON_PUBLIC_NETWORKS = tuple(  # in addition to those that `is_global` excludes in every supported Python
    ipaddress.ip_network(each)
    for each in (
        "100.64.0.0/10",  # carrier-grade NAT
        "168.63.129.16/32",  # platform services of Azure
        "192.0.0.0/24",  # IETF protocol assignments; metadata service of Oracle Cloud
        "::/3",  # with the next two, all of IPv6 except 2000::/3, the only range of public addresses
        "4000::/2",
        "8000::/1",
        "3fff::/20",  # documentation
    )
)
NAT64_NETWORK = ipaddress.ip_network("64:ff9b::/96")  # embeds an IPv4 address


class PublicAddresses(httpx2.AsyncBaseTransport):
    """Transport that resolves host names itself and connects to public addresses only.

    The inner transport sees an address instead of a host name: it must not keep connections alive, or one that was
    verified for one host would be reused for another at the same address.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, *, allow_private: bool = False, resolve: Resolver | None = None
    ) -> None:
        self.inner = inner
        self.allow_private = allow_private
        self.resolve = resolve or resolve_host

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Resolve the host, check its addresses, and send the request to one of them."""
        url = request.url
        host = url.raw_host.decode("ascii")  # as written: decoded and encoded again it could become another name
        if url.scheme not in ("http", "https") or not host:
            raise Undeliverable(f"a webhook URL must begin with https://, not {url.scheme}://")
        address = await self.resolve_public_address(host, url.port or (443 if url.scheme == "https" else 80))
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = url.copy_with(host=address)
        return await self.inner.handle_async_request(request)

    async def resolve_public_address(self, host: str, port: int) -> str:
        """Return an address of a host; raises Undeliverable when any of its addresses is not public."""
        try:
            addresses = await self.resolve(host, port)
        except OSError as error:
            raise httpx2.ConnectError(f"{host} cannot be resolved: {error.strerror or error}") from None
        if not addresses:
            raise httpx2.ConnectError(f"{host} has no address")
        if not self.allow_private and (private := [each for each in addresses if not is_public(each)]):
            raise Undeliverable(
                f"{host} resolves to {private[0]}, which is not a public address; "
                "DULY_WEBHOOK_ALLOW_PRIVATE=true allows it"
            )
        return addresses[0]

    async def aclose(self) -> None:
        """Close connections."""
        await self.inner.aclose()


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host name with the resolver of the operating system."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def is_public(text: str) -> bool:
    """Return whether an address is publicly routable; of one that embeds an IPv4 address, whether that is."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if embedded is None and address in NAT64_NETWORK:
            embedded = ipaddress.ip_address(int(address) & 0xFFFFFFFF)
        if embedded is not None:
            return is_public(str(embedded))
    return address.is_global and not address.is_multicast and not any(address in each for each in NON_PUBLIC_NETWORKS)
