"""Our worker process: `python -m tools.bench.ingest.worker <address> ...`. The real runtime, one kind of work."""

import os
import sys
from pathlib import Path

from psycopg.conninfo import make_conninfo

from duly.apps.ingest.reading import FixtureReader
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.lease.work import Tuning
from duly.logging import configure_logs
from duly.settings import Settings, load_settings
from duly.worker.runner import run_worker

BATCH = 200  # sessions in one statement, for both sides
SLOTS = 2 * BATCH  # two cycles, each of which may hold a full batch


def main() -> None:
    """Work until SIGTERM; only the minimal program uses the other arguments."""
    dsn, *_ = sys.argv[1:]
    settings = load_settings()
    with Path(os.devnull).open("w") as nowhere:
        configure_logs(settings, nowhere)  # as always, and discarded
        run_worker([work_of(settings)], settings, dsn=make_conninfo(dsn, user=settings.worker_role))


def work_of(settings: Settings) -> CaptureWork:
    """Build the work of sessions from the settings, with larger batches."""
    tuning = Tuning(
        lease_seconds=settings.lease_timeout_seconds,
        heartbeat_seconds=settings.lease_heartbeat_seconds,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=SLOTS,
        batch=BATCH,
    )
    return CaptureWork(
        FixtureReader(Path("none")), tuning, CaptureOptions(summary_threshold=settings.summary_threshold)
    )


if __name__ == "__main__":
    main()
