"""A worker over a table of the laws: `<dsn> shape=<name> [pace=value ...]`; the notes of its rows say what it does."""

from duly.lease.work import Work
from tests.support.conformance.tables import SHAPES
from tests.support.conformance.work import LawWork
from tests.support.worker_pool import WorkerSettings, run, with_pace


def works(settings: WorkerSettings) -> list[Work]:
    """Work on the table of this shape."""
    name = settings.pop("shape")
    work = LawWork(next(shape for shape in SHAPES if str(shape) == name))
    work.tuning = with_pace(work.tuning, settings)
    return [work]


def main() -> None:
    """Be a worker."""
    run(works)
