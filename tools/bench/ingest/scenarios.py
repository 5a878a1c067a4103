"""The scenarios: each lets one variant do one thing, and returns figures; it knows of no rounds."""

from dataclasses import dataclass

from tools.bench.ingest.drain import Waiting, measure_drain
from tools.bench.ingest.server import IngestServer
from tools.bench.report import Figures
from tools.bench.run import Scenario

DULY, BARE = "duly", "bare"
FEW, MANY = "few days", "many days"
VARIANTS = (DULY, BARE, FEW, MANY)
WORKERS = {DULY: "tools.bench.ingest.worker", BARE: "tools.bench.ingest.bare_worker"}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    sessions: int = 20_000
    days: int = 100_000  # that are known from long ago, where there are many; a hundredth of it where there are few
    warm_waves: int = 20  # of a few sessions, before anything is measured

    def days_for(self, variant: str) -> int:
        """Return how many days are stored already."""
        return self.days if variant == MANY else max(2, self.days // 100)


def drain(server: IngestServer, variant: str, sizes: Sizes) -> Figures:
    """Drain sessions that all wait at once, beside stored days."""
    waiting = Waiting(sizes.sessions, sizes.days_for(variant), sizes.warm_waves)
    return measure_drain(server, WORKERS.get(variant, WORKERS[DULY]), waiting)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("drain", "drain", drain, (DULY, BARE)),
        Scenario("grown", "drain beside days of long ago", drain, (FEW, MANY)),
    )
}
CHOICES = {"drain": ("drain",), "growth": ("grown",)}
