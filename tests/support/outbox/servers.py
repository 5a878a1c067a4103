"""Local servers for what the receiver does not do: TLS with SNI, and endless responses."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TlsServer:
    """A TLS server that keeps connections open and records the server name of each handshake."""

    def __init__(self) -> None:
        self.port = 0
        self.handshakes: list[str | None] = []
        self.hosts: list[str] = []

    def record_handshake(self, _connection: object, name: str | None, _context: object) -> None:
        """Record the server name of a handshake."""
        self.handshakes.append(name)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond to one request after the other on the same connection."""
        while head := await read_headers(reader):
            self.hosts.append(head["host"])
            await reader.readexactly(int(head.get("content-length", "0")))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            await writer.drain()


class FloodServer:
    """A server that sends a response until the client closes the connection, or up to a limit."""

    def __init__(self, head: bytes, chunk: bytes, limit: int) -> None:
        self.head = head
        self.chunk = chunk
        self.limit = limit
        self.port = 0
        self.sent = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, and send chunks up to the limit."""
        head = await read_headers(reader)
        await reader.readexactly(int(head.get("content-length", "0")))
        writer.write(b"HTTP/1.1 200 OK\r\n" + self.head + b"\r\n")
        while self.sent < self.limit:
            writer.write(self.chunk)
            await writer.drain()
            self.sent += len(self.chunk)


@asynccontextmanager
async def tls_server(certificate: Path) -> AsyncGenerator[TlsServer, None]:
    """Run a TLS server with this certificate for every name."""
    server = TlsServer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = server.record_handshake
    async with listening(server.serve, context) as server.port:
        yield server


@asynccontextmanager
async def flood_server(
    chunk: bytes = b"x" * 65_536, *, head: bytes = b"", limit: int = 134_217_728
) -> AsyncGenerator[FloodServer, None]:
    """Run a server that sends this chunk over and over."""
    server = FloodServer(head, chunk, limit)
    async with listening(server.serve) as server.port:
        yield server


@asynccontextmanager
async def listening(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    """Serve a free port; connections that are still open at the end are closed."""
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


async def read_headers(reader: asyncio.StreamReader) -> dict[str, str]:
    """Return the headers of the next request."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


def certificate_for(names: Sequence[str], folder: Path) -> Path:
    """Create a self-signed certificate for these names, in one file with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "duly's tests")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path
