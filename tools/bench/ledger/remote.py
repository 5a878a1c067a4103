"""Enqueueing with a system that lives in another environment: a child process there does what each line says.

    benchmark --stdin--> ["enqueue_many", [[-1, -1, ...]]]      child: python -m tools.bench.ledger.remote oban ADDRESS
              <-stdout-- {"cpu": 0.123}

Whole loops run in the child, so that no figure contains the pipe; only a pick-up's single job does.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import Client, System, import_system

if TYPE_CHECKING:
    from tools.bench.ledger.peers import Peer

ROOT = Path(__file__).parents[3]
MODULE = "tools.bench.ledger.remote"
BUILD = "build"
MAX_LINE_BYTES = 1_000_000


class RemoteClient(Client):
    """The client in the child process."""

    has_own_process = True

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def call(self, method: str, *arguments: object) -> dict[str, Any]:
        """Call a method of the client there; return the answer."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([method, arguments]).encode() + b"\n")
        line = await self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that enqueues ended during {method}")
        return json.loads(line)

    async def enqueue_one(self, number: int) -> None:
        await self.call("enqueue_one", number)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        await self.call("enqueue_many", list(numbers))

    async def enqueue_in_one_commit(self, jobs: int) -> None:
        await self.call("enqueue_in_one_commit", jobs)

    async def enqueue_singly(self, jobs: int) -> None:
        await self.call("enqueue_singly", jobs)

    async def enqueue_in_batches(self, jobs: int) -> None:
        await self.call("enqueue_in_batches", jobs)

    async def read_cpu_seconds(self) -> float:
        return (await self.call("read_cpu_seconds"))["answer"]


class RemoteSystem(System):
    """A system in an environment of its own."""

    def __init__(self, peer: "Peer") -> None:
        self.peer = peer
        self.name = peer.name  # type: ignore[misc]
        self.setting = peer.setting  # type: ignore[misc]
        self.unfinished = peer.unfinished  # type: ignore[misc]

    @property
    def python(self) -> str:
        return self.peer.install()

    def build(self, dsn: str) -> None:
        subprocess.run(
            [self.python, "-m", MODULE, self.name, dsn, BUILD],
            env=child_environment(),
            cwd=ROOT,
            stdout=sys.stderr,
            check=True,
        )

    @asynccontextmanager
    async def client(self, dsn: str) -> AsyncGenerator[Client, None]:
        process = await asyncio.create_subprocess_exec(
            self.python, "-m", MODULE, self.name, dsn,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=child_environment(), cwd=ROOT, limit=MAX_LINE_BYTES,
        )  # fmt: skip
        try:
            yield RemoteClient(process)
        finally:
            assert process.stdin
            process.stdin.close()
            await process.wait()

    def work(self, dsn: str, start_log: StartLog) -> None:
        raise NotImplementedError("its worker is started in its own environment")


def child_environment() -> dict[str, str]:
    """Return an environment without addresses of other databases."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PG", "DATABASE_", "DBOS_", "OBAN_"))
    }


# In the child process -------------------------------------------------------------------------------------------------


def main() -> None:
    """Build the tables, or enqueue what the lines on stdin say."""
    import uvloop

    name, dsn, *words = sys.argv[1:]
    system = import_system(name)
    if words == [BUILD]:
        system.build(dsn)
    else:
        uvloop.run(serve(system, dsn))


async def serve(system: System, dsn: str) -> None:
    """Answer each line until there is none; output of libraries goes to stderr, not among the answers."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    async with system.client(dsn) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            method, arguments = json.loads(line)
            answer = await getattr(client, method)(*arguments)
            answers.write(json.dumps({"answer": answer}) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
