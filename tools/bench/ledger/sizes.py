"""How many jobs and rows each scenario takes."""

from dataclasses import dataclass

from tools.bench.ledger.system import SLOW, System

MICRO = 1e6
MEGABYTE = 1e6


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    jobs: int = 20_000  # drained, or enqueued in batches
    few_jobs: int = 2_000  # instead, where a system is slow
    path_jobs: int = 5_000  # that fail, are retried, released, cancelled or report progress
    singles: int = 2_000  # enqueued one by one, by each number of clients; four times as many by sixteen
    pickups: int = 2_000  # enqueued one by one for an idle worker
    least_gap_ms: float = 5.0  # between two of these
    max_gap_ms: float = 25.0
    waiting_rows: int = 1_000_000  # that stand in the table and are not for the worker
    finished_rows: int = 1_000_000
    many_finished_rows: int = 10_000_000
    snapshot_jobs: int = 300_000  # drained while a snapshot is held
    footprint_passes: int = 3  # of 1000 jobs one by one and 1000 at once; the last one is shown
    warm_waves: int = 30  # a few jobs each, before anything is measured: statements are prepared after a dozen

    def jobs_for(self, system: System) -> int:
        """Return how many jobs this system is given to drain or to enqueue."""
        return min(self.jobs, self.few_jobs) if system.name in SLOW else self.jobs
