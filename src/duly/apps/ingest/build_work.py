"""Builds the work of ingest from the settings: the work on capture sessions, and the sender of notifications."""

from pathlib import Path
from typing import TYPE_CHECKING

from duly.apps.ingest.reading import FixtureReader, NoiseReader
from duly.apps.ingest.settings import IngestSettings
from duly.apps.ingest.states import States
from duly.apps.ingest.work import CaptureOptions, CaptureWork
from duly.assembly import WorkPlan, build_sender
from duly.executors.process_pool import ProcessPool
from duly.launcher import ROOT
from duly.lease.work import Tuning, Work
from duly.outbox.states import notification_table
from duly.settings import Settings
from duly.storage import open_object_store

if TYPE_CHECKING:  # a worker that reads no photographs does not import OCR
    from duly.apps.ingest.photographs import OcrRunner, PhotographReader

MAX_PHOTOGRAPH_SLOTS = 8  # sessions; the rest are left to other workers


def build_capture_work(plan: WorkPlan) -> Work:
    """Build the work on capture sessions; raises InvalidArgument for a missing fixture when `--only` names ingest.

    One cycle claims one session, complete or not, and by default reads the fixture, as its contract says. A worker that
    runs on claims complete sessions, and by default reads their photographs.
    """
    settings, once = plan.settings, plan.once
    reads_fixture = (settings.worker_input_mode or ("fixture" if once else "ocr")) == "fixture"
    reader = FixtureReader(find_fixture(settings)) if reads_fixture else build_photograph_reader(settings)
    if isinstance(reader, FixtureReader) and "ingest" in (plan.only or ()):
        reader.check()
    tuning = Tuning(
        lease_seconds=settings.lease_timeout_seconds,
        heartbeat_seconds=settings.lease_heartbeat_seconds if settings.enable_lease_heartbeat else None,
        poll_seconds=settings.ingest_poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=1 if once else settings.worker_slots if reads_fixture else count_photograph_slots(settings),
    )
    options = CaptureOptions(
        schema=settings.db_schema,
        states=states_from_settings(settings),
        due="created_at" if once else "closed_at",
        idle_seconds=settings.session_idle_seconds,
        summary_threshold=settings.summary_threshold,
        simulated_seconds=settings.simulated_work_seconds,
        idle_log_every=settings.idle_log_every,
        is_one_cycle=once,
    )
    return CaptureWork(
        NoiseReader(reader, settings.chaos_seed) if settings.enable_chaos_parser else reader, tuning, options
    )


def find_fixture(settings: Settings) -> Path:
    """Return the file that `fixture` mode reads; the default is found in the checkout from any working directory."""
    path = settings.fixture_payload_path
    is_default = path == IngestSettings.model_fields["fixture_payload_path"].get_default(call_default_factory=True)
    return ROOT / path if is_default and not path.exists() else path


def count_photograph_slots(settings: Settings) -> int:
    """Return how many sessions with photographs a worker claims: few, because it reads one photograph at a time.

    More than one, so that sessions with data do not wait for photographs; without a heartbeat only one, because the
    lease of one that waits would not be renewed.
    """
    return min(settings.worker_slots, MAX_PHOTOGRAPH_SLOTS) if settings.enable_lease_heartbeat else 1


def states_from_settings(settings: Settings) -> States:
    """Return the names of the states of a capture session."""
    return States(settings.pending_state, settings.processing_state, settings.done_state, settings.failed_state)


def build_photograph_reader(settings: Settings) -> "PhotographReader":
    """Build the reader of photographs, with a child process of its own that is started for the first of them."""
    from duly.apps.ingest.photographs import PhotographReader

    process_pool = ProcessPool(1)
    return PhotographReader(open_object_store(settings), build_ocr_runner(settings, process_pool), process_pool.close)


def build_ocr_runner(settings: Settings, process_pool: ProcessPool) -> "OcrRunner":
    """Build the OCR runner, which uses a child process of this pool."""
    from duly.apps.ingest.ocr.engine import EngineConfig
    from duly.apps.ingest.photographs import OcrRunner

    tessdata = str(settings.ocr_tessdata.absolute()) if settings.ocr_tessdata else None
    return OcrRunner(
        process_pool.perform,
        EngineConfig(settings.ocr_engine, settings.ocr_language, tessdata),
        default_year=settings.ocr_default_year,
        seconds=settings.ocr_seconds,
        memory_bytes=settings.ocr_memory_mb * 1024 * 1024,
    )


def build_notification_work(plan: WorkPlan) -> Work:
    """Build the sender of notifications about days, where the table is duly's."""
    return build_sender(plan.settings, "notifications", notification_table(plan.settings.db_schema))
