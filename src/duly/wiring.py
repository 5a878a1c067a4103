"""The one place where domains, channels, worker and doors meet: the kinds of work, and how each is built."""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from operator import attrgetter
from pathlib import Path
from traceback import TracebackException
from typing import TYPE_CHECKING

from duly.app import App
from duly.apps.posts.reading import Analyzer
from duly.errors import InvalidArgument
from duly.executors.process_pool import ProcessPool
from duly.extras import install
from duly.jobs.work import JobWork
from duly.launcher import ROOT
from duly.lease.work import Tuning, Work
from duly.outbox.channel import Channel
from duly.outbox.states import MessageTable
from duly.settings import Settings

if TYPE_CHECKING:
    from duly.apps.ingest.photographs import OcrRunner, PhotographReader
    from duly.apps.ingest.session_reports import SessionReports
    from duly.apps.ingest.states import States

READ_AHEAD = 8  # sessions; the rest are left to other workers


def ledger(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """The jobs that this app has handlers for; without any, what dead workers held still comes back."""
    tuning = Tuning(
        poll_seconds=settings.poll_seconds, sweep_seconds=settings.sweep_seconds, slots=settings.worker_slots
    )
    return JobWork(app.handlers(), tuning, api_role=settings.api_role, on_failure=app.failure_hooks)


def posts(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """Posts whose time has come."""
    from duly.apps.posts.alerts import OPERATOR, Alerts
    from duly.apps.posts.work import PostWork
    from duly.storage import open_object_store

    lease = settings.posts_lease_seconds
    tuning = Tuning(
        lease_seconds=lease,
        heartbeat_seconds=lease / 4,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=settings.posts_slots,
    )
    return PostWork(
        analyzer_of(settings),
        tuning,
        objects=open_object_store(settings),
        analyzer_seconds=settings.posts_analyzer_seconds,
        alerts=Alerts(settings.alert_channel, settings.alert_recipient or OPERATOR),
    )


def analyzer_of(settings: Settings) -> Analyzer:
    """Who reads posts."""
    if settings.posts_analyzer == "rules":
        from duly.apps.posts.rules import RulesAnalyzer

        return RulesAnalyzer()
    from duly.apps.posts.language_model import LanguageModelAnalyzer

    assert settings.openai_model, "the settings see to that"
    key = settings.openai_api_key
    return LanguageModelAnalyzer(
        settings.openai_model,
        key=key.get_secret_value() if key else None,
        base_url=settings.openai_base_url,
        seconds=settings.openai_seconds,
    )


def ingest(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """Capture sessions: for one cycle one of them, complete or not; otherwise those that are complete.

    One cycle takes the sample, as its contract says. Whoever goes on reads photographs, unless told: people send them.
    """
    from duly.apps.ingest.reading import FixtureReader, NoiseReader
    from duly.apps.ingest.work import CaptureOptions, CaptureWork

    reads_file = takes_fixture(settings, once=once)
    reader = FixtureReader(fixture_path(settings)) if reads_file else photographs(settings)
    tuning = Tuning(
        lease_seconds=settings.lease_timeout_seconds,
        heartbeat_seconds=settings.lease_heartbeat_seconds if settings.enable_lease_heartbeat else None,
        poll_seconds=settings.ingest_poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=1 if once else settings.worker_slots if reads_file else reading_slots(settings),
    )
    options = CaptureOptions(
        schema=settings.db_schema,
        states=states_of(settings),
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


def takes_fixture(settings: Settings, *, once: bool) -> bool:
    """Is the file of FIXTURE_PAYLOAD_PATH taken for what a session shows?"""
    return (settings.worker_input_mode or ("fixture" if once else "ocr")) == "fixture"


def fixture_path(settings: Settings) -> Path:
    """The file that is taken for what was read; the sample is found in the checkout, whatever directory we are in."""
    path = settings.fixture_payload_path
    is_default = path == Settings.model_fields["fixture_payload_path"].get_default(call_default_factory=True)
    return ROOT / path if is_default and not path.exists() else path


def check_input(settings: Settings, *, once: bool) -> None:
    """Before anything is claimed: refuse a file that is not there."""
    from duly.apps.ingest.reading import FixtureReader

    if takes_fixture(settings, once=once):
        FixtureReader(fixture_path(settings)).check()


def find_session_reports(works: Sequence[Work]) -> "SessionReports | None":
    """How the sessions of one cycle ended, when there were sessions among the work."""
    from duly.apps.ingest.work import CaptureWork

    return next((work.reports for work in works if isinstance(work, CaptureWork)), None)


def states_of(settings: Settings) -> "States":
    """What a backend calls the states of a session."""
    from duly.apps.ingest.states import States

    return States(settings.pending_state, settings.processing_state, settings.done_state, settings.failed_state)


def reading_slots(settings: Settings) -> int:
    """How many sessions a worker holds that reads photographs: few, for only one is read at a time.

    More than one, so that data goes past the photographs; without a heartbeat nobody would renew those that wait.
    """
    return min(settings.worker_slots, READ_AHEAD) if settings.enable_lease_heartbeat else 1


def photographs(settings: Settings) -> "PhotographReader":
    """The reader of photographs, with a child process of its own that is started for the first of them."""
    from duly.apps.ingest.photographs import PhotographReader
    from duly.storage import open_object_store

    children = ProcessPool(1)
    return PhotographReader(open_object_store(settings), ocr_runner(settings, children), children.close)


def ocr_runner(settings: Settings, children: ProcessPool) -> "OcrRunner":
    """Build the OCR runner, which uses a child process of this pool."""
    from duly.apps.ingest.ocr.engine import EngineConfig
    from duly.apps.ingest.photographs import OcrRunner

    tessdata = str(settings.ocr_tessdata.absolute()) if settings.ocr_tessdata else None
    return OcrRunner(
        children.perform,
        EngineConfig(settings.ocr_engine, settings.ocr_language, tessdata),
        default_year=settings.ocr_default_year,
        seconds=settings.ocr_seconds,
        memory_bytes=settings.ocr_memory_mb * 1024 * 1024,
    )


def scheduler(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """Schedules whose next runs are to be made, and runs whose reminder is due."""
    from duly.apps.scheduler.work import ScheduleWork

    tuning = Tuning(
        poll_seconds=settings.poll_seconds, sweep_seconds=settings.sweep_seconds, slots=settings.scheduler_slots
    )
    return ScheduleWork(tuning, horizon=timedelta(seconds=settings.scheduler_horizon_seconds))


def channels_of(settings: Settings) -> dict[str, Channel]:
    """The channels that are switched on and configured: Telegram needs a bot token."""
    from duly.outbox.channels.apprise import AppriseChannel
    from duly.outbox.channels.console import ConsoleChannel
    from duly.outbox.channels.webhook import WebhookChannel

    console = ConsoleChannel()
    webhook = WebhookChannel(seconds=settings.webhook_seconds, allow_private=settings.webhook_allow_private)
    apprise = AppriseChannel(seconds=settings.webhook_seconds, allow_private=settings.webhook_allow_private)
    off = settings.sender_off.split(",")
    there_are: dict[str, Channel] = {"console": console, "webhook": webhook, "apprise": apprise}
    if settings.telegram_token and "telegram" not in off:
        there_are["telegram"] = telegram_of(settings)
    return {name: channel for name, channel in there_are.items() if name not in off}


def missing_settings_of(settings: Settings) -> dict[str, str]:
    """The channels whose messages wait because a setting is missing, each with what is missing."""
    missing = unset_settings_of(settings)
    return {} if takes_console(settings) else missing


def console_instead_of(settings: Settings) -> dict[str, str]:
    """The channels whose messages go to the console because a setting is missing, each with what is missing."""
    missing = unset_settings_of(settings)
    return missing if takes_console(settings) else {}


def takes_console(settings: Settings) -> bool:
    """Does the console take what is meant for a channel that is not configured?"""
    return settings.telegram_on_console and "console" not in settings.sender_off.split(",")


def unset_settings_of(settings: Settings) -> dict[str, str]:
    """The channels that are on and not configured, each with what is missing."""
    is_off = "telegram" in settings.sender_off.split(",")
    return {} if settings.telegram_token or is_off else {"telegram": "TELEGRAM_BOT_TOKEN is not set"}


def telegram_of(settings: Settings) -> Channel:
    """The channel of the bot whose token the settings have."""
    install("telegram")
    from duly.telegram.channel import Telegram

    assert settings.telegram_token, "who asks for it has one"
    return Telegram(
        settings.telegram_token.get_secret_value(), settings.telegram_api_url, seconds=settings.telegram_seconds
    )


def sender(
    settings: Settings,
    name: str,
    table: MessageTable,
    notify_channel: str | None = None,
    retain_days: int | None = None,
) -> Work:
    """Messages of one table that are due."""
    from duly.outbox.answer_links import AnswerLinks
    from duly.outbox.sender import SendWork

    lease = settings.sender_lease_seconds
    tuning = Tuning(
        lease_seconds=lease,
        heartbeat_seconds=lease / 4,
        poll_seconds=settings.poll_seconds,
        sweep_seconds=settings.sweep_seconds,
        slots=settings.sender_slots,
    )
    return SendWork(
        name,
        table,
        channels_of(settings),
        tuning,
        notify_channel=notify_channel,
        timeout_seconds=lease / 2,
        retain_days=retain_days,
        unconfigured=missing_settings_of(settings),
        console_fallback=console_instead_of(settings),
        links=AnswerLinks(settings.public_url) if settings.public_url else None,
    )


def outbox(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """What the domains have to say."""
    from duly.outbox.states import OUTBOX

    return sender(settings, "outbox", OUTBOX, "outbox", settings.sender_retain_days)


def notifications(settings: Settings, app: App, once: bool) -> Work:  # noqa: ARG001
    """What is told about days, where the table is ours."""
    from duly.outbox.states import notification_table

    return sender(settings, "notifications", notification_table(settings.db_schema))


WORKS: Mapping[str, Callable[[Settings, App, bool], Work]] = {
    "ledger": ledger,
    "ingest": ingest,
    "scheduler": scheduler,
    "posts": posts,
    "outbox": outbox,
    "notifications": notifications,
}


def works_of(
    settings: Settings, only: Sequence[str] | None = None, app: App | None = None, *, once: bool = False
) -> list[Work]:
    """The kinds of work a worker takes, for one cycle or for good: all there are, or those it was told."""
    unknown = [name for name in only or () if name not in WORKS]
    if unknown:
        there_are = ", ".join(WORKS) or "none yet"
        raise InvalidArgument(f"--only {','.join(only or ())}: there is no work '{unknown[0]}'; there are: {there_are}")
    mine = app or App()
    works = [build(settings, mine, once) for name, build in WORKS.items() if only is None or name in only]
    for work in works:
        work.is_only_work = len(works) == 1
    return works


def load_app(name: str) -> App:
    """The app that `module:variable` names, found from the directory we are in."""
    module, _, variable = name.partition(":")
    if not module or not variable:
        raise InvalidArgument(f"--app {name}: write it as module:variable, for example shop.jobs:app")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        imported = importlib.import_module(module)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise InvalidArgument(f"--app {name}: there is no module '{error.name}' in {here} or on the path") from None
        raise broken_app(name, module, error) from None
    try:
        found = attrgetter(variable)(imported)
    except AttributeError:
        raise InvalidArgument(f"--app {name}: the module '{module}' has no '{variable}'") from None
    if not isinstance(found, App):
        raise InvalidArgument(f"--app {name}: that is a {type(found).__name__}, not a duly.App")
    return found


def broken_app(name: str, module: str, error: Exception) -> InvalidArgument:
    """The refusal of a module that fails while it is imported; its note is the traceback, without frames of ours."""
    traced = TracebackException.from_exception(error)
    seen: TracebackException | None = traced
    while seen:
        seen.stack[:] = [frame for frame in seen.stack if not is_machinery(frame.filename)]
        seen = seen.__cause__ or seen.__context__
    last = "".join(traced.format_exception_only()).strip().splitlines()[-1]
    refusal = InvalidArgument(f"--app {name}: the module '{module}' cannot be imported: {last}")
    refusal.add_note("".join(traced.format()).rstrip("\n"))
    return refusal


def is_machinery(filename: str) -> bool:
    """Is this file ours, or Python's own way of importing?"""
    return filename in (__file__, importlib.__file__) or filename.startswith("<frozen importlib")
