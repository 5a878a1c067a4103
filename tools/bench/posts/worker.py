"""Our worker process: `python -m tools.bench.posts.worker <address>`. The real runtime, captions only."""

import sys

from psycopg.conninfo import make_conninfo

from duly.apps.posts.rules import RulesAnalyzer
from duly.apps.posts.work import PostWork
from duly.lease.work import Tuning
from duly.logging import configure_logs
from duly.settings import load_settings
from duly.worker.runner import run_worker

BATCH = 1000  # posts in one statement, for both sides
SLOTS = 2 * BATCH  # two cycles, each of which may hold a full batch


def main() -> None:
    """Work until SIGTERM."""
    (dsn,) = sys.argv[1:]
    settings = load_settings().model_copy(update={"log_level": "warning"})
    configure_logs(settings, sys.stderr)
    lease = settings.posts_lease_seconds
    tuning = Tuning(
        lease_seconds=lease,
        heartbeat_seconds=lease / 4,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=SLOTS,
        batch=BATCH,
    )
    work = PostWork(RulesAnalyzer(), tuning, analyzer_seconds=settings.posts_analyzer_seconds)
    run_worker([work], settings, dsn=make_conninfo(dsn, user=settings.worker_role))


if __name__ == "__main__":
    main()
