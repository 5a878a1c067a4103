"""Assembles a worker: builds the work types of the engine and of the applications that are switched on."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from duly.app import App
from duly.applications import EXTRA, describe_as_off, list_applications, load
from duly.errors import InvalidArgument, Misconfigured
from duly.extras import install, is_installed
from duly.jobs.work import JobWork
from duly.lease.work import Tuning, Work
from duly.outbox.channel import Channel
from duly.outbox.states import OUTBOX, MessageTable
from duly.settings import Settings


@dataclass(frozen=True)
class WorkPlan:
    """What a worker is to run: its settings, the handlers of jobs, and whether for one cycle only."""

    settings: Settings
    app: App
    once: bool
    only: Sequence[str] | None = None  # the names of `--only`; None: everything


def build_works(
    settings: Settings, only: Sequence[str] | None = None, app: App | None = None, *, once: bool = False
) -> list[Work]:
    """Build the work types of a worker, for one cycle or until it is stopped: all, or those of `only`."""
    builders = list_builders(settings)
    for name in only or ():
        check_is_known(name, builders, settings, only or ())
    plan = WorkPlan(settings, app or App(), once, only)
    works = [build(plan) for name, build in builders.items() if only is None or name in only]
    for work in works:
        work.is_only_work = len(works) == 1
    return works


def list_builders(settings: Settings) -> Mapping[str, Callable[[WorkPlan], Work]]:
    """List the work types of the engine and of the applications that are on, each with the function that builds it."""
    engine: dict[str, Callable[[WorkPlan], Work]] = {"ledger": build_job_work, "outbox": build_outbox_work}
    return engine | {
        name: load(path) for application in list_applications(settings.apps) for name, path in application.works.items()
    }


def check_is_known(name: str, known: Mapping[str, object], settings: Settings, only: Sequence[str]) -> None:
    """Refuse the name of a work type that does not exist, or belongs to an application that is switched off."""
    if name in known:
        return
    owner = next((each for each in list_applications() if name in each.works), None)
    if owner:
        raise Misconfigured(describe_as_off(settings.apps, f"--only {name}", owner))
    raise InvalidArgument(f"--only {','.join(only)}: there is no work '{name}'; there are: {', '.join(known)}")


# Jobs -----------------------------------------------------------------------------------------------------------------


def build_job_work(plan: WorkPlan) -> Work:
    """Build the work on jobs that the app has handlers for; without any, leases that expired are still recovered."""
    settings = plan.settings
    tuning = Tuning(
        poll_seconds=settings.poll_seconds, sweep_seconds=settings.sweep_seconds, slots=settings.worker_slots
    )
    return JobWork(plan.app.handlers(), tuning, api_role=settings.api_role, on_failure=plan.app.failure_hooks)


# Messages -------------------------------------------------------------------------------------------------------------


def build_outbox_work(plan: WorkPlan) -> Work:
    """Build the sender of the outbox."""
    return build_sender(plan.settings, "outbox", OUTBOX, "outbox", plan.settings.sender_retain_days)


def build_sender(
    settings: Settings,
    name: str,
    table: MessageTable,
    notify_channel: str | None = None,
    retain_days: int | None = None,
) -> Work:
    """Build the work that sends the due messages of a table."""
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
        build_channels(settings),
        tuning,
        notify_channel=notify_channel,
        timeout_seconds=lease / 2,
        retain_days=retain_days,
        unconfigured=list_waiting_channels(settings),
        console_fallback=list_console_channels(settings),
        links=AnswerLinks(settings.public_url) if settings.public_url and is_installed(EXTRA) else None,
    )


def build_channels(settings: Settings) -> dict[str, Channel]:
    """Build the channels that are not in DULY_SENDER_OFF; Telegram only with a bot token, webhooks with their extra."""
    from duly.outbox.channels.apprise import AppriseChannel
    from duly.outbox.channels.console import ConsoleChannel

    off = settings.sender_off.split(",")
    channels: dict[str, Channel] = {
        "console": ConsoleChannel(),
        "apprise": AppriseChannel(seconds=settings.webhook_seconds, allow_private=settings.webhook_allow_private),
    }
    if is_installed(EXTRA):
        from duly.outbox.channels.webhook import WebhookChannel

        channels["webhook"] = WebhookChannel(
            seconds=settings.webhook_seconds, allow_private=settings.webhook_allow_private
        )
    if settings.telegram_token and "telegram" not in off:
        install("telegram")
        token = settings.telegram_token.get_secret_value()
        telegram = load("duly.telegram.channel:Telegram")  # above the engine, like an application
        channels["telegram"] = telegram(token, settings.telegram_api_url, seconds=settings.telegram_seconds)
    return {name: channel for name, channel in channels.items() if name not in off}


def list_waiting_channels(settings: Settings) -> dict[str, str]:
    """List the channels whose messages wait because a setting is missing, each with what is missing."""
    return {} if is_console_fallback(settings) else list_unconfigured_channels(settings)


def list_console_channels(settings: Settings) -> dict[str, str]:
    """List the channels whose messages go to the console because a setting is missing, each with what is missing."""
    return list_unconfigured_channels(settings) if is_console_fallback(settings) else {}


def is_console_fallback(settings: Settings) -> bool:
    """Return whether messages of a channel that is not configured go to the console."""
    return settings.telegram_on_console and "console" not in settings.sender_off.split(",")


def list_unconfigured_channels(settings: Settings) -> dict[str, str]:
    """List the channels that are on and not configured, each with what is missing."""
    is_off = "telegram" in settings.sender_off.split(",")
    return {} if settings.telegram_token or is_off else {"telegram": "TELEGRAM_BOT_TOKEN is not set"}
