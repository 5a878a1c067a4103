"""The scenarios: each lets one variant do one thing, and returns figures; it knows of no rounds."""

from dataclasses import dataclass

from tools.bench.report import Figures
from tools.bench.run import Scenario
from tools.bench.scheduler.passes import measure_due, measure_pass
from tools.bench.scheduler.sending import measure_sending
from tools.bench.scheduler.server import SchedulerServer

DULY, BARE = "duly", "bare"
FEW, SOME, MANY = "few", "some", "many"
VARIANTS = (DULY, BARE, FEW, SOME, MANY)
SHARE = {FEW: 100, SOME: 10, MANY: 1}


@dataclass(frozen=True)
class Sizes:
    """The sizes of a run."""

    schedules: int = 1_000_000  # where there are many; a tenth and a hundredth of it where some and few
    due: int = 1_000
    runs: int = 10_000_000  # of the past, where there are many; a hundredth of it where few
    messages: int = 20_000


def one_pass(server: SchedulerServer, variant: str, sizes: Sizes) -> Figures:
    """Plan and remind of due schedules, beside waiting ones."""
    return measure_pass(server, sizes.schedules // SHARE[variant], sizes.due)


def due_query(server: SchedulerServer, variant: str, sizes: Sizes) -> Figures:
    """Run the contract's own query, beside past runs."""
    return measure_due(server, max(1, sizes.runs // SHARE[variant]))


def sending(server: SchedulerServer, variant: str, sizes: Sizes) -> Figures:
    """Claim and settle messages."""
    return measure_sending(server, sizes.messages, is_bare=variant == BARE)


SCENARIOS: dict[str, Scenario[SchedulerServer, Sizes]] = {
    each.name: each
    for each in (
        Scenario("pass", "one pass, by the number of active schedules", one_pass, (FEW, SOME, MANY)),
        Scenario("due", "the contract's due query, by the number of past runs", due_query, (FEW, MANY)),
        Scenario("send", "outbox: hold and settle", sending, (DULY, BARE)),
    )
}
CHOICES = {"pass": ("pass",), "due": ("due",), "send": ("send",)}
