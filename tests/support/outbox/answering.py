"""Real servers on this machine for what the receiver does not do: TLS with names, and answers that do not end."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Flood", "Named", "certificate_for", "flooding", "named"]

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Named:
    """A server with TLS that keeps its connections open, and remembers the name that each was opened for."""

    def __init__(self) -> None:
        self.port = 0
        self.handshakes: list[str | None] = []
        self.hosts: list[str] = []

    def greet(self, _connection: object, name: str | None, _context: object) -> None:
        """Somebody said hello, and to whom."""
        self.handshakes.append(name)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other on the same connection."""
        while head := await head_of(reader):
            self.hosts.append(head["host"])
            await reader.readexactly(int(head.get("content-length", "0")))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()


class Flood:
    """A server whose answer goes on until nobody takes it, or until far more was taken than is bearable."""

    def __init__(self, head: bytes, piece: bytes, limit: int) -> None:
        self.head = head
        self.piece = piece
        self.limit = limit
        self.port = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take a request, and send and send."""
        head = await head_of(reader)
        await reader.readexactly(int(head.get("content-length", "0")))
        writer.write(b"HTTP/1.1 200 OK\r\n" + self.head + b"\r\n")
        while self.sent < self.limit:
            writer.write(self.piece)
            await writer.drain()
            self.sent += len(self.piece)


@asynccontextmanager
async def named(certificate: Path) -> AsyncGenerator[Named, None]:
    """A server that has this certificate, whatever it is called."""
    server = Named()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = server.greet
    async with listening(server.serve, context) as server.port:
        yield server


@asynccontextmanager
async def flooding(
    piece: bytes = b"x" * 65_536, *, head: bytes = b"", limit: int = 134_217_728
) -> AsyncGenerator[Flood, None]:
    """A server that answers with this, over and over."""
    server = Flood(head, piece, limit)
    async with listening(server.serve) as server.port:
        yield server


@asynccontextmanager
async def listening(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    """A free port that is served; whoever is still there at the end is hung up on."""
    tasks: set[asyncio.Task[None]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def head_of(reader: asyncio.StreamReader) -> dict[str, str]:
    """The headers of the next request; none when there is no other."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def certificate_for(names: Sequence[str], folder: Path) -> Path:
    """A fresh certificate for these names, signed by itself, in one file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "duly's tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = folder / "certificate.pem"
    written.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return written
