"""A worker process over a conformance table: `<dsn> shape=<name> [tuning=value ...]`."""

from duly.lease.work import Work
from tests.support.conformance.tables import SHAPES
from tests.support.conformance.work import ConformanceWork
from tests.support.worker_pool import WorkerSettings, run, with_tuning


def works(settings: WorkerSettings) -> list[Work]:
    """Work on the table of this shape."""
    name = settings.pop("shape")
    work = ConformanceWork(next(shape for shape in SHAPES if str(shape) == name))
    work.tuning = with_tuning(work.tuning, settings)
    return [work]


def main() -> None:
    """Run the worker."""
    run(works)
