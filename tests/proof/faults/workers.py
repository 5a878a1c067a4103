"""Workers over every kind of work at once, whose handlers behave and misbehave as a payload says."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from duly.apps.ingest.reading import FixtureReader
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.apps.posts.reading import Reading
from duly.apps.posts.rules import RulesAnalyzer, fallback_reading
from duly.apps.posts.work import PostWork
from duly.apps.scheduler.work import ScheduleWork
from duly.backoff import Backoff
from duly.executors.call import Call
from duly.jobs.work import JobWork
from duly.lease.operations import Lease
from duly.lease.work import StopSignal, Tuning, Work
from duly.outbox.channels.webhook import WebhookChannel
from duly.outbox.sender import SendWork
from duly.outbox.states import OUTBOX, MessageTable, notification_table
from duly.settings import Settings
from tests.proof.faults.handlers import app
from tests.support.processes import pause, print_line
from tests.support.worker_pool import WorkerPool, WorkerSettings, run, with_tuning

LEASE_SECONDS = 1.5
TUNING = Tuning(
    lease_seconds=LEASE_SECONDS,
    heartbeat_seconds=0.3,
    poll_seconds=0.1,
    sweep_seconds=0.2,
    slots=12,
    batch=100,
    max_starts=200,  # on a busy machine a lease this short expires often though its worker is alive
)
SOON = Backoff(base_seconds=0.05, cap_seconds=0.3)


class SlowReader:
    """Reads captions by the rules, and takes its time."""

    name = "slow"

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rules = RulesAnalyzer()

    async def read(self, caption: str, photo: bytes | None) -> Reading:
        """The reading of a post."""
        await pause(self.seconds)
        return await self.rules.read(caption, photo)


class SlowSchedules(ScheduleWork):
    """Plans as it should, and takes its time."""

    def __init__(self, tuning: Tuning, seconds: float) -> None:
        super().__init__(tuning)
        self.seconds = seconds

    def build_call(self, lease: Lease, stop_signal: StopSignal) -> Call:
        """The same plan, later."""
        call = super().build_call(lease, stop_signal)

        async def plan_later(*arguments: Any) -> object:
            await pause(self.seconds)
            return await call.function(*arguments)

        return replace(call, function=plan_later)


# The works ------------------------------------------------------------------------------------------------------------


HOOK = WebhookChannel(seconds=2, allow_private=True)
CHANNELS = {"webhook": HOOK, "telegram": HOOK, "console": HOOK}  # whatever the channel, the receiver gets it


def sender(name: str, table: MessageTable, tuning: Tuning) -> Work:
    """A sender that does not give up while the harness lasts."""
    return SendWork(name, table, CHANNELS, tuning, backoff=SOON, timeout_seconds=1.0, max_starts=1000)


Build = Callable[[Tuning, float], Work]
WORKS: Mapping[str, Build] = {
    "ledger": lambda tuning, _: JobWork(app.handlers(), tuning),
    "ingest": lambda tuning, seconds: CaptureWork(
        FixtureReader(Settings().fixture_payload_path),
        tuning,
        CaptureOptions(simulated_seconds=seconds),  # type: ignore[call-arg]
    ),
    "scheduler": SlowSchedules,
    "posts": lambda tuning, seconds: PostWork(SlowReader(seconds), tuning),
    "outbox": lambda tuning, _: sender("outbox", OUTBOX, tuning),
    "notifications": lambda tuning, _: sender("notifications", notification_table(), tuning),
}


def works(settings: WorkerSettings) -> list[Work]:
    """All kinds of work, or those of `only`; `seconds` is how long reading takes, `clock` prints what time it is."""
    if settings.pop("clock", None):
        print_line("clock", time.time())
    only = settings.pop("only", ",".join(WORKS)).split(",")
    seconds = float(settings.pop("seconds", "0.05"))
    tuning = with_tuning(TUNING, settings)
    return [build(tuning, seconds) for name, build in WORKS.items() if name in only]


def warm_up() -> None:
    """Load the lexicons and the certificates."""
    fallback_reading("any caption")
    HOOK.get_client()


def main() -> None:
    """Be a worker."""
    run(works)


class FaultWorkerPool(WorkerPool):
    """Workers of one name over everything."""

    module = __name__
