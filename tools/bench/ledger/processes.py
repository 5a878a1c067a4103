"""Worker processes of a side."""

import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench.ledger.board import Board
from tools.bench.processes import Process, launch, stop


@dataclass(frozen=True)
class WorkerProcess(Process):
    """A worker that was started, and its board."""

    board: Board


@contextmanager
def start_workers(side: str, dsn: str, processes: int, numbers: int) -> Generator[Sequence[WorkerProcess], None, None]:
    """So many worker processes of a side; stopped politely afterwards, and killed if they do not go."""
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as directory, ExitStack() as stack:
        workers: list[WorkerProcess] = []
        for nth in range(processes):
            path = Path(directory) / f"board-{nth}"
            board = Board.make(path, numbers)
            process = launch("tools.bench.ledger.worker", side, dsn, str(path), str(numbers))
            workers.append(WorkerProcess(process, board))
            stack.callback(stop, process)
        yield workers
