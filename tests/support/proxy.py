"""A proxy between a client and PostgreSQL that breaks on purpose, at a chosen moment.

    cut()                  every connection ends now
    cut_before(pattern)    the next request with these bytes never reaches the server, and its connection ends
    cut_after(pattern)     that request is executed and answered, its client never hears of it, and its connection ends
    cut_after_write()      the same for the next commit of something written, be it one statement or a transaction
    drop_answers()         requests arrive, answers do not
    freeze()               nothing arrives and no connection closes: bytes wait, as they do while a network is down
    resume()               everything flows again

What is written is judged by the server's answer, which waits until it is whole: nothing was refused, the transaction is
over by a commit, and in it an INSERT, UPDATE, DELETE or MERGE met rows; or a function reported a new row
(a column `is_new` or `outcome`); or a statement gave back the very rows that it wrote (`from settled`, `ledger.claim`,
`ledger.done`). An answer that is not of this kind goes on unchanged, and the trap waits for the next.

It runs on a loop in a thread of its own, so that a test of either colour can drive it, and each verb has taken effect
when it returns. It reads the protocol just far enough to know where a message ends and which answer is whose.
"""

import asyncio
import re
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

from psycopg.abc import ConnDict
from psycopg.conninfo import conninfo_to_dict, make_conninfo

SECONDS = 30.0
ENDS_A_REQUEST = (b"Q", b"S", b"F")  # a simple query, a sync, a function call: each is answered by one "ready"
READY = b"Z"
ASYNCHRONOUS_MESSAGES = b"ANSGHW"  # news of any moment, and what a copy begins with: these never wait
IN_TRANSACTION = b"T"  # so says a "ready" inside of one
HAS_WRITTEN = re.compile(rb"(INSERT 0|UPDATE|DELETE|MERGE) [1-9]")  # so says the word about a statement that met rows
HAS_ROWS = re.compile(rb"SELECT [1-9]")
REPORTS_WRITE = {(b"is_new", b"t"), (b"outcome", b"created")}  # and so a function that may find what was there before
RETURNS_WHAT_IT_WROTE = re.compile(rb"\bfrom\s+settled\b|\bledger\.(claim|done)\(", re.IGNORECASE)
DISCONNECTED = (asyncio.IncompleteReadError, OSError)


class Trap(NamedTuple):
    """What waits for the next request with these bytes, or for the next commit of something written."""

    pattern: bytes | None
    forward: bool


class Proxy:
    """The same database at another address for the length of a `with`, and the hand on every wire to it."""

    address: str
    loop: asyncio.AbstractEventLoop

    def __init__(self, upstream: str) -> None:
        self.upstream = conninfo_to_dict(upstream)
        self.connections = 0  # made so far
        self.connections_cut = 0  # of these, ended by us
        self.wires: set[Wire] = set()
        self.trap: Trap | None = None
        self.swallowed: threading.Event | None = None
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.stopping = asyncio.Event()
        self.thread = ThreadPoolExecutor(1, "proxy")

    def __enter__(self) -> Self:
        listening = Future[None]()
        self.running = self.thread.submit(asyncio.run, self.run(listening))
        listening.result(SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.running.done():
            self.do(self.stopping.set)
        self.running.result(SECONDS)
        self.thread.shutdown()

    def cut(self) -> None:
        """End every connection, in whatever state it is."""
        self.do(lambda: [wire.cut() for wire in list(self.wires)])

    def cut_before(self, pattern: bytes) -> None:
        """The next request that contains these bytes never reaches the server."""
        self.trap = Trap(pattern, forward=False)

    def cut_after(self, pattern: bytes) -> None:
        """The next request that contains these bytes is executed; its answer and its connection are lost."""
        self.trap = Trap(pattern, forward=True)

    def cut_after_write(self) -> None:
        """The next commit of something written is done; its answer and its connection are lost."""
        self.trap = Trap(None, forward=True)

    def drop_answers(self) -> threading.Event:
        """Forward requests and swallow answers; the event is set once a whole answer was swallowed."""
        self.swallowed = swallowed = threading.Event()
        return swallowed

    def freeze(self) -> None:
        """Let nothing through in either direction, neither bytes nor the end of a connection."""
        self.do(self.flowing.clear)

    def resume(self) -> None:
        """Let everything through again; a connection whose answers were swallowed ends, for it lost its thread."""
        self.do(self.flow_again)

    def flow_again(self) -> None:
        """Undo what the other verbs did."""
        self.trap, self.swallowed = None, None
        for wire in [wire for wire in self.wires if wire.spoiled]:
            wire.cut()
        self.flowing.set()

    def do(self, act: Callable[[], object]) -> None:
        """Act between two steps of the loop, and return when it is done."""

        async def step() -> None:
            act()

        asyncio.run_coroutine_threadsafe(step(), self.loop).result(SECONDS)

    async def run(self, listening: Future[None]) -> None:
        """Serve until stopped; an error of the proxy ends everything and is raised by the `with`."""
        self.loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                if self.stopping.is_set():  # who came in the last moment
                    writer.transport.abort()
                    return
                self.connections += 1
                wire = Wire(self, Side(reader, writer))
                wire.task = group.create_task(wire.run())
                self.wires.add(wire)

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            host, port = server.sockets[0].getsockname()
            # Encryption would begin with an answer that is no message; on loopback it is not needed.
            plain = {"sslmode": "disable", "gssencmode": "disable"}
            self.address = make_conninfo("", **{**self.upstream, **plain, "host": host, "port": port})
            listening.set_result(None)
            await self.stopping.wait()
            server.close()
            for wire in list(self.wires):
                wire.cut()


class Message(NamedTuple):
    """One message of the protocol, whole; a client's greeting has no kind."""

    kind: bytes
    text: bytes


class Side(NamedTuple):
    """One end of a wire."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class Wire:
    """One connection of a client, and ours to the server on its behalf."""

    task: asyncio.Task[None]

    def __init__(self, proxy: Proxy, client: Side) -> None:
        self.proxy = proxy
        self.client = client
        self.sides = [client]
        self.pending_ready = 1  # how often the server is to say "ready"; the first time is its welcome
        self.ready = 0  # how often it did
        self.last: int | None = None  # the answer that ends with this "ready" is the last, and is not passed on
        self.spoiled = False  # an answer was swallowed: the next would be taken for it
        self.returners: set[bytes] = set()  # prepared statements that return what they wrote
        self.is_returner = False  # one of those under way does
        self.requests = deque([False])  # for every answer to come: does a statement of its request?
        self.columns: list[bytes] = []  # of the rows that come
        self.held: list[Message] = []  # an answer that waits until it is whole
        self.has_passed = False  # some of this answer has gone on
        self.has_written = False  # in the transaction that is open, to some row
        self.has_committed = False  # such a transaction, by this answer
        self.has_failed = False  # something in this answer is refused

    def cut(self) -> None:
        """End it at once, without a word to either side."""
        self.proxy.wires.discard(self)
        self.proxy.connections_cut += 1
        for side in self.sides:
            side.writer.transport.abort()
        self.task.cancel()

    async def run(self) -> None:
        """Carry bytes both ways until one end closes."""
        try:
            with suppress(*DISCONNECTED):
                await self.proxy.flowing.wait()
                server = await connect(self.proxy.upstream)
                self.sides.append(server)
                await run_until_first_ends(
                    self.carry_requests(self.client.reader, server.writer), self.carry_answers(server.reader)
                )
        finally:
            self.proxy.wires.discard(self)
            for side in self.sides:
                side.writer.close()
            for side in self.sides:
                with suppress(*DISCONNECTED):
                    await side.writer.wait_closed()

    async def carry_requests(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """From the client to the server, message by message."""
        message = await self.receive(client, has_kind=False)
        while message:
            if message.kind and self.is_trapped(message):
                return
            self.note_request(message)
            if server.is_closing():
                return
            server.write(message.text)
            message = await self.receive(client)

    def is_trapped(self, message: Message) -> bool:
        """Does it spring a trap for these bytes, so that it must not go on? One that may is this connection's last."""
        trap = self.proxy.trap
        if not trap or trap.pattern is None or trap.pattern not in message.text:
            return False
        self.proxy.trap = None
        self.last = self.pending_ready + 1
        if not trap.forward:
            self.cut()
        return not trap.forward

    def note_request(self, message: Message) -> None:
        """Remember what is asked, as far as its answer cannot be understood without it."""
        text = message.text[5:]
        match message.kind:
            case b"P":
                name, _, text = text.partition(b"\0")
                is_returner = RETURNS_WHAT_IT_WROTE.search(text) is not None
                self.returners = self.returners | {name} if is_returner else self.returners - {name}
            case b"B":
                self.is_returner |= text.split(b"\0", 2)[1] in self.returners
            case b"Q":
                self.is_returner |= RETURNS_WHAT_IT_WROTE.search(text) is not None
            case b"H":  # flush
                self.release()
                self.has_passed = True
            case _:
                pass
        if message.kind in ENDS_A_REQUEST:
            self.pending_ready += 1
            self.requests.append(self.is_returner)
            self.is_returner = False

    async def carry_answers(self, server: asyncio.StreamReader) -> None:
        """From the server to the client, except what is to be dropped."""
        while message := await self.receive(server):
            is_last = self.last is not None and self.ready >= self.last - 1
            self.note_answer(message)
            if message.kind == READY:
                self.ready += 1
            if swallowed := self.proxy.swallowed:
                self.spoiled = True
                self.held.clear()
                if message.kind == READY:
                    swallowed.set()
            elif not is_last:
                self.held.append(message)
                if message.kind == READY and self.matches_trap():
                    self.proxy.trap = None
                    self.held.clear()
                    self.cut()
                elif message.kind == READY or not self.waits(message):
                    self.release()
            if message.kind == READY:
                self.has_passed = self.has_committed = self.has_failed = False
                self.requests.popleft()
                if is_last:
                    self.cut()

    def note_answer(self, message: Message) -> None:
        """What this says about what was written, and whether for good."""
        text = message.text[5:]
        match message.kind:
            case b"T":
                self.columns = column_names(text)
            case b"D":
                self.has_written |= not REPORTS_WRITE.isdisjoint(zip(self.columns, column_values(text), strict=False))
            case b"C":
                is_returned = bool(self.requests) and self.requests[0] and HAS_ROWS.match(text) is not None
                self.has_written |= HAS_WRITTEN.match(text) is not None or is_returned
                self.has_committed |= self.has_written and text.startswith(b"COMMIT")
                self.has_written &= not text.startswith((b"COMMIT", b"ROLLBACK\0"))
            case b"E":
                self.has_failed = True
            case b"Z" if text[:1] != IN_TRANSACTION:
                self.has_committed |= self.has_written
                self.has_written = False
            case _:
                pass

    def matches_trap(self) -> bool:
        """Does this complete answer commit a write, and is a test waiting for one?"""
        is_wanted = self.proxy.trap is not None and self.proxy.trap.pattern is None
        return is_wanted and self.has_committed and not self.has_failed and not self.has_passed

    def waits(self, message: Message) -> bool:
        """Must this wait until its answer is complete? Only while a test wants to lose a commit."""
        is_wanted = self.proxy.trap is not None and self.proxy.trap.pattern is None
        return is_wanted and self.ready > 0 and not self.has_passed and message.kind not in ASYNCHRONOUS_MESSAGES

    def release(self) -> None:
        """Let go on what waits."""
        self.has_passed |= any(message.kind not in ASYNCHRONOUS_MESSAGES for message in self.held)
        for message in self.held:
            if not self.client.writer.is_closing():
                self.client.writer.write(message.text)
        self.held.clear()

    async def receive(self, reader: asyncio.StreamReader, *, has_kind: bool = True) -> Message | None:
        """The next message, once the proxy lets anything through; None when there will be no more."""
        message = None
        with suppress(*DISCONNECTED):
            kind = await reader.readexactly(1) if has_kind else b""
            length = await reader.readexactly(4)
            message = Message(kind, kind + length + await reader.readexactly(int.from_bytes(length) - 4))
        await self.proxy.flowing.wait()
        return message


def column_names(text: bytes) -> list[bytes]:
    """The columns that a description of rows names."""
    names, rest = list[bytes](), text[2:]
    for _ in range(int.from_bytes(text[:2])):
        name, _, rest = rest.partition(b"\0")
        names.append(name)
        rest = rest[18:]
    return names


def column_values(text: bytes) -> list[bytes | None]:
    """The values of a row, as text."""
    values, rest = list[bytes | None](), text[2:]
    for _ in range(int.from_bytes(text[:2])):
        size, rest = int.from_bytes(rest[:4], signed=True), rest[4:]
        values.append(rest[:size] if size >= 0 else None)
        rest = rest[max(size, 0) :]
    return values


async def connect(upstream: ConnDict) -> Side:
    """To the server, by a socket in the file system or by TCP."""
    host, port = str(upstream["host"]), int(upstream.get("port") or 5432)
    if host.startswith("/"):
        return Side(*await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}"))
    return Side(*await asyncio.open_connection(host, port))


async def run_until_first_ends(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Return as soon as one of them is over, and end the others."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
