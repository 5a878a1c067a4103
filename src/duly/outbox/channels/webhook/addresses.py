"""Protection against server-side request forgery: webhooks connect to public addresses only.

A host name is resolved once, all its addresses must be public, and the connection goes to one of these addresses, so
that DNS rebinding has no effect. TLS is still verified against the name.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import httpx2

from duly.outbox.channel import Undeliverable
from duly.outbox.channels.public_addresses import is_public

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]


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
