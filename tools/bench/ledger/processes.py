"""Worker processes of a system."""

import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench.ledger.start_log import StartLog
from tools.bench.ledger.system import System
from tools.bench.processes import Process, launch, stop

TAIL_CHARACTERS = 3000


@dataclass(frozen=True)
class WorkerProcess(Process):
    """A worker that was started, and its log of starts."""

    start_log: StartLog


@contextmanager
def start_workers(
    system: System, dsn: str, processes: int, numbers: int, environment: Mapping[str, str] | None = None
) -> Generator[list[WorkerProcess], None, None]:
    """Start worker processes of a system; terminated afterwards, and killed if they do not end.

    What they print goes to a file, since logging failures is part of their work; an error of ours shows its end.
    """
    with tempfile.TemporaryDirectory(prefix="duly-bench-") as directory, ExitStack() as stack:
        workers: list[WorkerProcess] = []
        outputs = [Path(directory) / f"output-{nth}" for nth in range(processes)]
        for nth, output in enumerate(outputs):
            path = Path(directory) / f"starts-{nth}"
            start_log = StartLog.create(path, numbers)
            words = (system.name, dsn, str(path), str(numbers))
            process = launch(
                "tools.bench.ledger.worker", *words, environment=environment, python=system.python, output=output
            )
            workers.append(WorkerProcess(process, start_log))
            stack.callback(stop, process)
        try:
            yield workers
        except BaseException:
            print_outputs(outputs)
            raise


def print_outputs(outputs: Sequence[Path]) -> None:
    """Print the end of what each worker printed."""
    for output in outputs:
        print(f"{output.name}:\n{output.read_text(errors='replace')[-TAIL_CHARACTERS:]}", file=sys.stderr)


def count_started(workers: Sequence[WorkerProcess]) -> int:
    """Count the handlers that all of them started."""
    return sum(worker.start_log.count for worker in workers)
